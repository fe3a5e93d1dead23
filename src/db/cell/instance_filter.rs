//! Filters of server lists: as SQL, or as a check of each record if the filter is a regular expression.

use chrono::{DateTime, Utc};
use diesel::dsl::{exists, not};
use diesel::prelude::*;
use regex::Regex;
use uuid::Uuid;

use super::instances::Instance;
use super::schema::{instance_metadata, instances, tags};
use crate::db::columns::{Multi, Sql};
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

macro_rules! equal {
    ($query:ident, $filter:ident: $($field:ident),+) => {
        $( if let Some(value) = $filter.$field.clone() { $query = $query.filter(instances::$field.eq(value)); } )+
    };
}

impl InstanceFilter {
    /// True if SQL cannot check all conditions, so that [`InstanceFilter::admits`] must check the rest.
    pub(super) fn looks_at_records(&self) -> bool {
        self.name.is_some() || self.description.is_some() || self.hostname.is_some() || self.looks_at_addresses()
    }

    /// True if [`InstanceFilter::admits`] needs the info cache.
    pub(super) fn looks_at_addresses(&self) -> bool {
        self.ip.is_some() || self.ip6.is_some()
    }

    /// Checks the conditions that SQL cannot check.
    pub(super) fn admits(&self, instance: &Instance, network: Option<&NetworkInfo>) -> bool {
        let found = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        let address = |pattern: &Option<Regex>, version: u8| {
            let mut addresses = network.iter().flat_map(|info| info.addresses()).filter(|address| address.version() == version);
            pattern.as_ref().is_none_or(|pattern| addresses.any(|address| pattern.is_match(&address.address)))
        };
        found(&self.name, &instance.display_name)
            && found(&self.description, instance.display_description.as_deref().unwrap_or_default())
            && found(&self.hostname, instance.hostname.as_deref().unwrap_or_default())
            && address(&self.ip, 4)
            && address(&self.ip6, 6)
    }

    /// Builds the query with the conditions that SQL can check.
    pub(super) fn query<'a>(&self) -> Query<'a> {
        let mut query = self.visible(instances::table.into_boxed());
        equal!(query, self: project_id, user_id, reservation_id, host, node, availability_zone, flavor_id, image_ref, key_name);
        equal!(query, self: locked, locked_by, config_drive, auto_disk_config, launch_index, progress, root_device_name);
        equal!(query, self: access_ip_v4, access_ip_v6, power_state);
        if let Some(uuids) = &self.uuids {
            query = query.filter(instances::uuid.eq_any(uuids.iter().copied().map(Sql)));
        }
        query = self.states(self.times(query));
        self.tagged(query)
    }

    fn visible<'a>(&self, mut query: Query<'a>) -> Query<'a> {
        query = match self.deleted {
            Deleted::Exclude => query.filter(instances::deleted.eq(false)),
            Deleted::Only => query.filter(instances::deleted.eq(true)),
            Deleted::Include => query,
        };
        if stands(Guard::HiddenFilter) && !self.with_hidden {
            query.filter(instances::hidden.is_null().or(instances::hidden.eq(false)))
        } else {
            query
        }
    }

    fn times<'a>(&self, mut query: Query<'a>) -> Query<'a> {
        if let Some(at) = self.created_at {
            query = query.filter(instances::created_at.eq(Sql(at)));
        }
        if let Some(at) = self.launched_at {
            query = query.filter(instances::launched_at.eq(Sql(Some(at))));
        }
        if let Some(at) = self.terminated_at {
            query = query.filter(instances::terminated_at.eq(Sql(Some(at))));
        }
        if let Some(since) = self.changes_since {
            let unchanged = instances::updated_at.is_null().and(instances::created_at.ge(Sql(since)));
            query = query.filter(instances::updated_at.ge(Sql(Some(since))).or(unchanged));
        }
        if let Some(before) = self.changes_before {
            let unchanged = instances::updated_at.is_null().and(instances::created_at.le(Sql(before)));
            query = query.filter(instances::updated_at.le(Sql(Some(before))).or(unchanged));
        }
        query
    }

    fn states<'a>(&self, mut query: Query<'a>) -> Query<'a> {
        if let Some(states) = &self.vm_states {
            query = query.filter(instances::vm_state.eq_any(states.clone()));
        }
        if let Some(states) = &self.task_states {
            let named: Vec<TaskState> = states.iter().copied().flatten().collect();
            let at_rest = states.contains(&None);
            let named = instances::task_state.is_not_null().and(instances::task_state.assume_not_null().eq_any(named));
            query = query.filter(named.or(instances::task_state.is_null().and(at_rest.into_sql::<diesel::sql_types::Bool>())));
        }
        let Some(pairs) = &self.states else { return query };
        // A condition per VM state, with its tasks or without a limit to them, keeps the SQL short.
        let mut any: super::instance_sort::Condition = Box::new(false.into_sql::<diesel::sql_types::Bool>());
        for vm_state in VmState::ALL {
            let tasks: Vec<Option<TaskState>> = pairs.iter().filter(|(vm, _)| vm == vm_state).map(|(_, task)| *task).collect();
            if tasks.len() > TaskState::ALL.len() {
                any = Box::new(any.or(instances::vm_state.eq(*vm_state)));
                continue;
            }
            if tasks.contains(&None) {
                any = Box::new(any.or(instances::vm_state.eq(*vm_state).and(instances::task_state.is_null())));
            }
            let named: Vec<TaskState> = tasks.into_iter().flatten().collect();
            if !named.is_empty() {
                let busy = instances::task_state.is_not_null().and(instances::task_state.assume_not_null().eq_any(named));
                any = Box::new(any.or(instances::vm_state.eq(*vm_state).and(busy)));
            }
        }
        query.filter(any)
    }

    fn tagged<'a>(&self, mut query: Query<'a>) -> Query<'a> {
        let with = |tag: String| exists(tags::table.filter(tags::instance_uuid.eq(instances::uuid)).filter(tags::tag.eq(tag)));
        for tag in &self.tags {
            query = query.filter(with(tag.clone()));
        }
        for tag in &self.not_tags_any {
            query = query.filter(not(with(tag.clone())));
        }
        let one_of =
            |names: Vec<String>| exists(tags::table.filter(tags::instance_uuid.eq(instances::uuid)).filter(tags::tag.eq_any(names)));
        if !self.tags_any.is_empty() {
            query = query.filter(one_of(self.tags_any.clone()));
        }
        if !self.not_tags.is_empty() {
            let mut lacks_one: super::instance_sort::Condition = Box::new(false.into_sql::<diesel::sql_types::Bool>());
            for tag in &self.not_tags {
                lacks_one = Box::new(lacks_one.or(not(with(tag.clone()))));
            }
            query = query.filter(lacks_one);
        }
        for (key, value) in &self.metadata {
            let rows = instance_metadata::table.filter(instance_metadata::instance_uuid.eq(instances::uuid));
            query = query
                .filter(exists(rows.filter(instance_metadata::key.eq(key.clone())).filter(instance_metadata::value.eq(value.clone()))));
        }
        query
    }
}
