//! Services: the programs that work for a cell, as the cell records them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::agent::ForcedDown;
use crate::compute_host::SERVICE_VERSION;
use crate::standing::Standing;

/// A service on a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// The id in this cell's database, which old microversions show.
    pub id: i32,
    pub uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    pub host: String,
    /// `nova-compute`, `nova-conductor`, …
    pub binary: String,
    pub topic: String,
    pub availability_zone: String,
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// True if an operator vouches that the host is off.
    pub forced_down: bool,
    /// The moment at which an operator vouched for it last; none of a word that an earlier release wrote down.
    #[serde(default)]
    pub forced_down_at: Option<DateTime<Utc>>,
    /// The moment of the last hello or word of the host's agent; none of a host without an agent.
    #[serde(default)]
    pub agent_heard_at: Option<DateTime<Utc>>,
    pub last_seen_up: Option<DateTime<Utc>>,
    pub report_count: i32,
    pub version: i32,
}

impl Service {
    /// Makes a service of this program that has not reported yet. Its topic is its binary's name without `nova-`.
    pub fn new(uuid: Uuid, host: &str, binary: &str, zone: &str, created_at: DateTime<Utc>) -> Service {
        Service {
            id: 0,
            uuid,
            created_at,
            updated_at: None,
            host: host.to_owned(),
            binary: binary.to_owned(),
            topic: binary.trim_start_matches("nova-").to_owned(),
            availability_zone: zone.to_owned(),
            disabled: false,
            disabled_reason: None,
            forced_down: false,
            forced_down_at: None,
            agent_heard_at: None,
            last_seen_up: None,
            report_count: 0,
            version: SERVICE_VERSION,
        }
    }

    /// Returns the standing of the service's host by its link, by the agent's last word and by the operator's.
    pub fn standing(&self, by_link: Standing) -> Standing {
        let by_link = by_link.recorded(self.agent_heard_at);
        match self.forced_down {
            true => by_link.forced_down(ForcedDown { at: self.forced_down_at }, self.agent_heard_at),
            false => by_link,
        }
    }
}

/// A change of a service by an operator. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceChange {
    pub disabled: Option<bool>,
    pub disabled_reason: Option<Option<String>>,
    pub forced_down: Option<bool>,
}

/// The services of one binary in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceCounts {
    pub total: i64,
    pub disabled: i64,
    pub forced_down: i64,
    /// Services that reported lately, were not forced down, and run on none of the hosts that the caller leaves out.
    pub seen: i64,
    /// The undeleted servers on the services' hosts, without hidden copies.
    pub servers: i64,
}
