//! The pace of live migrations between simulated hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Seconds;

/// The pace of live migrations between simulated hosts. By default an idle guest with 512 MiB moves in about a second.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveMigration {
    /// The MiB per second that go from host to host; 0 for no limit.
    pub bandwidth_mib: u64,
    /// The MiB of its memory that a running guest changes per second.
    pub dirty_rate_mib: u64,
    /// The number of further hosts that are asked after the first one refuses the guest; -1 for all of the cell.
    pub migrate_max_retries: i64,
    /// The longest time for which a guest may be paused at the end, in milliseconds.
    pub max_downtime_ms: u64,
    /// The time limit of a copy per GiB of the guest's memory and disks; 0 for none.
    pub completion_timeout: Seconds,
    /// At the time limit: `abort` leaves the guest at its source, `force_complete` pauses it however much is still to be copied.
    pub timeout_action: TimeoutAction,
}

/// See [`LiveMigration::timeout_action`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutAction {
    Abort,
    ForceComplete,
}

impl Default for LiveMigration {
    fn default() -> LiveMigration {
        LiveMigration {
            bandwidth_mib: 800,
            dirty_rate_mib: 256,
            migrate_max_retries: -1,
            max_downtime_ms: 50,
            completion_timeout: Seconds::whole(800),
            timeout_action: TimeoutAction::Abort,
        }
    }
}
