//! The wish that an operation in flight be cancelled, stored with the operation.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::context::RequestContext;

/// A wish with its author and reason. An operation past its point of no return continues anyway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cancellation {
    /// The purpose for which the operation makes room, for users: `the server is to be deleted`.
    pub why: String,
    pub request_id: String,
    pub user_id: String,
    pub project_id: String,
    pub asked_at: DateTime<Utc>,
}

impl Cancellation {
    /// Makes this caller's wish.
    pub fn new(caller: &RequestContext, why: &str, asked_at: DateTime<Utc>) -> Cancellation {
        let RequestContext { request_id, user_id, project_id, .. } = caller.clone();
        Cancellation { why: why.to_owned(), request_id, user_id, project_id, asked_at }
    }

    /// Returns the error with which the operation ends.
    pub fn error(&self) -> String {
        format!("Cancelled: {} (request {})", self.why, self.request_id)
    }
}
