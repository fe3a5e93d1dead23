//! Actions: what users asked of a server, and the events of the work on it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A request that a user made for a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Action {
    pub instance_uuid: Uuid,
    pub request_id: String,
    /// `resize`, `confirmResize`, …
    pub action: String,
    pub user_id: String,
    pub project_id: String,
    pub start_time: DateTime<Utc>,
    pub finish_time: Option<DateTime<Utc>>,
    pub updated_at: DateTime<Utc>,
    /// `Error` after a failed event.
    pub message: Option<String>,
}

/// A part of an action's work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// For example `compute_prep_snapshot_based_resize_at_dest`.
    pub event: String,
    pub start_time: DateTime<Utc>,
    pub finish_time: Option<DateTime<Utc>>,
    /// `Success` or `Error` once finished.
    pub result: Option<String>,
    /// Only administrators see it.
    pub traceback: Option<String>,
    pub host: Option<String>,
    /// A sentence for the owner (microversion 2.84).
    pub details: Option<String>,
}

/// An action with its events, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActionHistory {
    pub action: Action,
    pub events: Vec<Event>,
}

/// Identifies an action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActionKey {
    pub instance: Uuid,
    pub request_id: String,
    pub action: String,
}

/// Selects a server's actions, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionFilter {
    /// Only actions updated at or after this moment.
    pub changes_since: Option<DateTime<Utc>>,
    /// Only actions updated at or before this moment.
    pub changes_before: Option<DateTime<Utc>>,
    /// Only actions after the action of this request; a request without an action is an error.
    pub marker: Option<String>,
    pub limit: Option<i64>,
}
