//! The records of sagas: how far each is, who goes on with it, and the lines of its journal.

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::cancellation::Cancellation;
use crate::saga_state::SagaState;

/// A saga: its kind, its progress, and its lease.
#[derive(Clone, PartialEq, Debug)]
pub struct SagaRecord {
    pub id: Uuid,
    pub server: Uuid,
    pub kind: String,
    /// The version of the table by which it runs.
    pub table_version: i32,
    /// A state that this release does not know needs an operator.
    pub state: SagaState,
    /// The step at hand.
    pub step: String,
    /// The saga's context as JSON.
    pub context: String,
    pub error: Option<String>,
    /// The wish that the saga be cancelled, even if the wish came too late.
    pub cancellation: Option<Cancellation>,
    pub lease: Lease,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The right to write a saga's journal. A later owner has a higher epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub owner: String,
    pub epoch: i64,
}

/// A line of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    pub seq: i64,
    pub step: String,
    /// `act` or `undo`.
    pub side: String,
    pub attempt: i64,
    /// `begun`, or the outcome.
    pub event: String,
    pub error: Option<String>,
    pub at: DateTime<Utc>,
}

/// Selects a page of sagas for operators, newest first.
#[derive(Clone, Debug, Default)]
pub struct SagaFilter {
    pub server: Option<Uuid>,
    pub state: Option<SagaState>,
    /// Only sagas of these kinds; of all kinds if empty.
    pub kinds: Vec<String>,
    /// Only sagas that owe something.
    pub owing: bool,
    /// Only sagas that the request with this id began.
    pub request: Option<String>,
    /// Only older ones than this saga.
    pub marker: Option<Uuid>,
    pub limit: i64,
}

/// Returns the part of a stored context that names the request which began the saga.
pub fn mark_of_request(request: &str) -> String {
    format!("\"request_id\":\"{request}\"")
}

/// A saga of a table that this release does not know. A newer release began it, and goes on with it when it runs again: nobody takes it over
/// before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftAlone {
    pub saga: Uuid,
    pub server: Uuid,
    pub table: UnknownTable,
}

/// A kind of saga and a version of its tables that this release does not know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnknownTable {
    pub kind: String,
    pub version: i32,
}

impl UnknownTable {
    /// Returns the reason why nobody goes on with its sagas.
    pub fn reason(&self) -> String {
        format!("this release knows no {self}")
    }
}

impl fmt::Display for UnknownTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} of the table of {}", self.version, self.kind)
    }
}
