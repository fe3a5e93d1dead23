//! A delete that was accepted but could not begin, because the server was out of reach or another operation had it. Stored in the server's
//! mapping.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::context::RequestContext;

/// The author and the progress of a queued delete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeleteRequest {
    /// The user in whose name it runs.
    #[serde(flatten)]
    pub caller: RequestContext,
    /// None if an older release wrote the request.
    #[serde(default)]
    pub asked_at: Option<DateTime<Utc>>,
    /// The number of failed tries while the server's cell answered.
    #[serde(default)]
    pub attempts: u32,
    /// The last reason for waiting, other than the server's own cell.
    #[serde(default)]
    pub last_error: Option<String>,
    /// A refused try is not repeated before this time.
    #[serde(default)]
    pub next_try_at: Option<DateTime<Utc>>,
    /// True if the server's cell answered when the delete was requested and the record allowed it: users see the server until it is gone,
    /// and a later lock has no effect.
    #[serde(default)]
    pub in_sight: bool,
    /// True for a soft delete.
    #[serde(default)]
    pub deferred: bool,
}

impl DeleteRequest {
    /// Makes an untried request for a server that is out of reach.
    pub fn new(caller: RequestContext, asked_at: DateTime<Utc>) -> DeleteRequest {
        DeleteRequest {
            caller,
            asked_at: Some(asked_at),
            attempts: 0,
            last_error: None,
            next_try_at: None,
            in_sight: false,
            deferred: false,
        }
    }

    /// Makes a request for a server that is in sight and that another operation has.
    pub fn in_sight(caller: RequestContext, asked_at: DateTime<Utc>) -> DeleteRequest {
        DeleteRequest { in_sight: true, ..DeleteRequest::new(caller, asked_at) }
    }

    /// Makes this a soft delete, or one for good.
    pub fn deferred(self, deferred: bool) -> DeleteRequest {
        DeleteRequest { deferred, ..self }
    }

    /// Takes up a later request for the same server: after a soft delete it may be one for good.
    pub fn joined_by(&mut self, later: &DeleteRequest) {
        self.deferred &= later.deferred;
    }

    /// True if it may be tried now.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.next_try_at.is_none_or(|at| at <= now)
    }
}
