//! A delete that was accepted while nobody could carry it out, as the server's mapping keeps it.

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
}

impl DeleteRequest {
    /// One that nobody has tried yet.
    pub fn new(caller: RequestContext, asked_at: DateTime<Utc>) -> DeleteRequest {
        DeleteRequest { caller, asked_at: Some(asked_at), attempts: 0, last_error: None }
    }
}
