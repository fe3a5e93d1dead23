//! Filters of server lists. `conditions` holds the conditions that SQL can check, and `patterns` the regular expressions, which SQL cannot.

mod conditions;
mod patterns;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use regex::Regex;
use uuid::Uuid;

use self::conditions::CONDITIONS;
use self::patterns::PATTERNS;
use super::schema::instances;
use crate::db::columns::Multi;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::network_info::NetworkInfo;
use crate::domain::server::{PowerState, TaskState, VmState, api_status};
use crate::env::guard::{Guard, stands};

/// Whether a list shows deleted servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deleted {
    /// Only undeleted servers.
    #[default]
    Exclude,
    /// Only deleted servers.
    Only,
    /// Deleted and undeleted servers.
    Include,
}

/// Selects servers. All conditions that are set must hold. Hidden copies are left out unless `with_hidden` is set (INVARIANTS D2).
#[derive(Clone, Debug, Default)]
pub struct InstanceFilter {
    pub deleted: Deleted,
    pub with_hidden: bool,
    /// True if [`Deleted::Exclude`] leaves soft-deleted servers in.
    pub soft_deleted: Option<bool>,
    pub project_id: Option<String>,
    pub user_id: Option<String>,
    pub uuids: Option<Vec<Uuid>>,
    pub reservation_id: Option<String>,
    pub host: Option<String>,
    pub node: Option<String>,
    pub availability_zone: Option<String>,
    /// The flavor's public id.
    pub flavor_id: Option<String>,
    pub image_ref: Option<String>,
    pub key_name: Option<String>,
    pub locked: Option<bool>,
    pub locked_by: Option<String>,
    pub config_drive: Option<bool>,
    pub auto_disk_config: Option<bool>,
    pub launch_index: Option<i32>,
    pub progress: Option<i32>,
    pub root_device_name: Option<String>,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub power_state: Option<PowerState>,
    pub vm_states: Option<Vec<VmState>>,
    pub task_states: Option<Vec<Option<TaskState>>>,
    /// Pairs of states, from [`states_of_status`]. An empty list selects no server.
    pub states: Option<Vec<(VmState, Option<TaskState>)>>,
    pub created_at: Option<DateTime<Utc>>,
    pub launched_at: Option<DateTime<Utc>>,
    pub terminated_at: Option<DateTime<Utc>>,
    /// Changed at or after this moment; a server that never changed counts by its creation.
    pub changes_since: Option<DateTime<Utc>>,
    /// Changed at or before this moment; a server that never changed counts by its creation.
    pub changes_before: Option<DateTime<Utc>>,
    /// The server has all these tags.
    pub tags: Vec<String>,
    /// The server has at least one of these tags. An empty list allows any server.
    pub tags_any: Vec<String>,
    /// The server lacks at least one of these tags. An empty list allows any server.
    pub not_tags: Vec<String>,
    /// The server has none of these tags.
    pub not_tags_any: Vec<String>,
    /// The server has these keys with these values.
    pub metadata: Vec<(String, String)>,
    /// Matches the name.
    pub name: Option<Regex>,
    /// Matches the description.
    pub description: Option<Regex>,
    /// Matches the guest's host name.
    pub hostname: Option<Regex>,
    /// Matches an IPv4 address.
    pub ip: Option<Regex>,
    /// Matches an IPv6 address.
    pub ip6: Option<Regex>,
}

/// Returns the pairs of states that the API shows as one of these statuses.
pub fn states_of_status(statuses: &[&str]) -> Vec<(VmState, Option<TaskState>)> {
    let tasks = || std::iter::once(None).chain(TaskState::ALL.iter().copied().map(Some));
    let pairs = VmState::ALL.iter().flat_map(|vm| tasks().map(|task| (*vm, task)));
    pairs.filter(|(vm, task)| statuses.contains(&api_status(*vm, *task))).collect()
}

type Query<'a> = instances::BoxedQuery<'a, Multi>;

impl InstanceFilter {
    /// Checks all conditions on a record in memory: a build request, which is in no cell.
    pub fn admits(&self, bundle: &InstanceBundle) -> bool {
        CONDITIONS.iter().all(|condition| (condition.in_memory)(self, bundle))
            && self.patterns_match(&bundle.instance, bundle.info_cache.as_ref())
    }

    /// Builds the query with the conditions that SQL can check.
    pub(super) fn query<'a>(&self) -> Query<'a> {
        CONDITIONS.iter().fold(self.visible(), |query, condition| (condition.in_sql)(self, query))
    }

    /// True if SQL cannot check all conditions, so that [`InstanceFilter::patterns_match`] must check the rest.
    pub(super) fn looks_at_records(&self) -> bool {
        PATTERNS.iter().any(|pattern| (pattern.wanted)(self).is_some())
    }

    /// True if [`InstanceFilter::patterns_match`] needs the info cache.
    pub(super) fn looks_at_addresses(&self) -> bool {
        PATTERNS.iter().any(|pattern| pattern.searches_addresses() && (pattern.wanted)(self).is_some())
    }

    /// Checks the conditions that SQL cannot check.
    pub(super) fn patterns_match(&self, instance: &Instance, network: Option<&NetworkInfo>) -> bool {
        PATTERNS.iter().all(|pattern| (pattern.wanted)(self).is_none_or(|wanted| pattern.finds(wanted, instance, network)))
    }

    /// Leaves out hidden copies. Build requests have none, so memory has no such condition.
    fn visible<'a>(&self) -> Query<'a> {
        let query = instances::table.into_boxed();
        if stands(Guard::HiddenFilter) && !self.with_hidden {
            query.filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
        } else {
            query
        }
    }
}
