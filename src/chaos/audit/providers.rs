//! I15 for providers below hosts: each lies below its agent's provider, each agent's below its own host's, and no chain of parents ends
//! elsewhere. A bridge below another host would be given to that host's servers.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::report::{Findings, Violation};
use super::snapshot::{PlacementSnapshot, Snapshot};
use crate::domain::host_network::{is_reported, provider_id};
use crate::services::placement::Provider;

/// Finds violations of I15 in the parents of providers.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    let Some(placement) = snapshot.placement.as_ref().filter(|placement| placement.settled) else { return findings.done() };
    let names: BTreeMap<Uuid, &str> = placement.providers.iter().map(|provider| (provider.uuid, provider.name.as_str())).collect();
    for provider in &placement.providers {
        let parent = placement.parents.get(&provider.uuid).copied();
        let wrong = match expected_parent(snapshot, provider) {
            Some(expected) if parent != Some(expected) => {
                let name = |id: Option<Uuid>| id.map_or("none", |id| names.get(&id).copied().unwrap_or("an unknown provider"));
                Some(format!("its parent is {}, expected {}", name(parent), name(Some(expected))))
            }
            _ => lost(placement, provider.uuid, &names),
        };
        if let Some(why) = wrong {
            findings.add("I15", format!("provider {}", provider.name), why);
        }
    }
    findings.done()
}

/// Returns the parent of a provider that a host's agent has reported; none for any other provider, or if the host is unknown.
fn expected_parent(snapshot: &Snapshot, provider: &Provider) -> Option<Uuid> {
    if !is_reported(provider.uuid, &provider.name) {
        return None;
    }
    let (above, _) = provider.name.rsplit_once(':')?;
    match above.contains(':') {
        true => Some(provider_id(above)),
        false => snapshot.node_of(above).map(|node| node.uuid),
    }
}

/// Returns what is wrong if the provider's chain of parents does not end at a provider without a parent.
fn lost(placement: &PlacementSnapshot, provider: Uuid, names: &BTreeMap<Uuid, &str>) -> Option<String> {
    let (mut at, mut seen) = (provider, BTreeSet::from([provider]));
    while let Some(parent) = placement.parents.get(&at) {
        if !names.contains_key(parent) {
            return Some(format!("its parents end at {parent}, which does not exist"));
        }
        if !seen.insert(*parent) {
            return Some("its parents are a ring".to_owned());
        }
        at = *parent;
    }
    None
}
