//! The filter of server lists.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::server::{PowerState, TaskState, VmState, api_status};

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
    pub name: Option<TextPattern>,
    /// Matches the description.
    pub description: Option<TextPattern>,
    /// Matches the guest's host name.
    pub hostname: Option<TextPattern>,
    /// Matches an IPv4 address.
    pub ip: Option<TextPattern>,
    /// Matches an IPv6 address.
    pub ip6: Option<TextPattern>,
}

/// A pattern by which text is searched. Its language is the caller's.
#[derive(Clone)]
pub struct TextPattern {
    text: Arc<str>,
    is_match: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl TextPattern {
    /// Makes the pattern that a client writes as `text`, which `is_match` finds.
    pub fn new(text: &str, is_match: impl Fn(&str) -> bool + Send + Sync + 'static) -> TextPattern {
        TextPattern { text: Arc::from(text), is_match: Arc::new(is_match) }
    }

    /// Returns the pattern as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if the searched text has the pattern.
    pub fn is_match(&self, searched: &str) -> bool {
        (self.is_match)(searched)
    }
}

impl fmt::Debug for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextPattern").field(&self.text).finish()
    }
}

/// Returns the pairs of states that the API shows as one of these statuses.
pub fn states_of_status(statuses: &[&str]) -> Vec<(VmState, Option<TaskState>)> {
    let tasks = || std::iter::once(None).chain(TaskState::ALL.iter().copied().map(Some));
    let pairs = VmState::ALL.iter().flat_map(|vm| tasks().map(|task| (*vm, task)));
    pairs.filter(|(vm, task)| statuses.contains(&api_status(*vm, *task))).collect()
}
