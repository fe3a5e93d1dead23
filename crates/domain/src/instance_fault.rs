//! Faults: the reasons why a server went to ERROR.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A fault of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstanceFault {
    pub instance_uuid: Uuid,
    pub created_at: DateTime<Utc>,
    /// The HTTP status code.
    pub code: i32,
    /// Its first 255 characters are stored.
    pub message: String,
    /// Only administrators see them.
    pub details: Option<String>,
    pub host: Option<String>,
}
