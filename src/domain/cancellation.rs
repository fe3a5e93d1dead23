//! The wish that an operation in flight be cancelled, as the operation's record keeps it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::context::RequestContext;

/// The wish, its author and its reason. An operation that is past its point of no return goes on all the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cancellation {
    /// The purpose for which the operation makes room, as its user reads it: `the server is to be deleted`.
    pub why: String,
    pub request_id: String,
    pub user_id: String,
    pub project_id: String,
    pub asked_at: DateTime<Utc>,
}

impl Cancellation {
    /// This caller's wish.
    pub fn new(caller: &RequestContext, why: &str, asked_at: DateTime<Utc>) -> Cancellation {
        let RequestContext { request_id, user_id, project_id, .. } = caller.clone();
        Cancellation { why: why.to_owned(), request_id, user_id, project_id, asked_at }
    }

    /// The error with which the operation ends.
    pub fn error(&self) -> String {
        format!("Cancelled: {} (request {})", self.why, self.request_id)
    }
}
