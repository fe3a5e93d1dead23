//! The question whether a tree can give what ports ask for: a group of the query per group of each port, under the group's id.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::candidates::{Candidate, Group, Query, Traits};
use cellshift_domain::port_request::{Grant, PortRequest, RequestGroup};

/// Returns the query. The groups of one port that must lie in one subtree do; if isolated, no two groups share a provider.
pub fn query(requests: &[PortRequest], isolate: bool) -> Query {
    let group = |group: &RequestGroup| {
        let required = group.required.iter().map(|name| BTreeSet::from([name.clone()])).collect();
        let traits = Traits { required, forbidden: BTreeSet::new() };
        (group.id.to_string(), Group { resources: group.resources.clone(), traits, ..Group::default() })
    };
    let groups: BTreeMap<String, Group> = requests.iter().flat_map(|request| &request.groups).map(group).collect();
    let subtrees = requests.iter().filter(|request| !request.same_subtree.is_empty());
    let same_subtree = subtrees.map(|request| request.same_subtree.iter().map(Uuid::to_string).collect()).collect();
    Query { groups, isolate, same_subtree, ..Query::default() }
}

/// Returns the provider of each group in a candidate; none if a group has none.
pub fn grants<'a>(candidate: &Candidate, groups: impl Iterator<Item = &'a RequestGroup>) -> Option<Vec<Grant>> {
    let mappings = candidate.mappings();
    let grant = |group: &RequestGroup| {
        let provider = *mappings.get(&group.id.to_string())?.first()?;
        Some(Grant { group: group.id, provider, resources: group.resources.clone() })
    };
    groups.map(grant).collect()
}
