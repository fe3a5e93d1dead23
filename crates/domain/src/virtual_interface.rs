//! Virtual interfaces: a server's ports with their tags, as its cell records them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A virtual interface of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VirtualInterface {
    pub port_id: Uuid,
    pub instance_uuid: Uuid,
    pub created_at: DateTime<Utc>,
    /// The MAC address.
    pub address: String,
    pub network_id: Uuid,
    /// The device tag.
    pub tag: Option<String>,
}
