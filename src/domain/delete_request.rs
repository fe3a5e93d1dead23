//! A delete that was accepted while it could not begin, as the server's mapping keeps it: nobody could reach the server, or another
//! operation had it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::context::RequestContext;

/// Who asked for it, and how it goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeleteRequest {
    /// In whose name it is carried out.
    #[serde(flatten)]
    pub caller: RequestContext,
    /// None in what a release wrote that did not note it.
    #[serde(default)]
    pub asked_at: Option<DateTime<Utc>>,
    /// How often it could not be begun although its cell answered.
    #[serde(default)]
    pub attempts: u32,
    /// What kept it waiting last, other than its own cell.
    #[serde(default)]
    pub last_error: Option<String>,
    /// The server's record was seen when it was asked for, and let it: until it is gone its users see it, and a lock that comes later
    /// keeps nothing.
    #[serde(default)]
    pub in_sight: bool,
}

impl DeleteRequest {
    /// A request that nobody has tried yet, of a server that cannot be reached.
    pub fn new(caller: RequestContext, asked_at: DateTime<Utc>) -> DeleteRequest {
        DeleteRequest { caller, asked_at: Some(asked_at), attempts: 0, last_error: None, in_sight: false }
    }

    /// A request of a server that is seen and that another operation has.
    pub fn in_sight(caller: RequestContext, asked_at: DateTime<Utc>) -> DeleteRequest {
        DeleteRequest { in_sight: true, ..DeleteRequest::new(caller, asked_at) }
    }
}
