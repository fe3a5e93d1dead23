//! What is simulated: a topology, how much is asked of it, and how much goes wrong. A file says what differs from these
//! defaults; the seed decides all the rest.

use serde::{Deserialize, Serialize};

use super::fault::PlannedFault;

/// A scenario (TOML).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Cells with hosts.
    pub cells: u32,
    pub hosts_per_cell: u32,
    /// Servers that users try to have at once.
    pub servers: usize,
    /// What users ask for in all.
    pub actions: usize,
    /// Over how many seconds they ask.
    pub seconds: u64,
    /// Faults at most; the seed says how many and which.
    pub max_faults: usize,
    /// The longest way of a message to or from a host, in milliseconds.
    pub max_delay_ms: u64,
    /// The longest time that an operation of a hypervisor takes, in milliseconds; the seed says how long each does.
    pub max_latency_ms: u64,
    /// Faults to use in place of those that the seed would draw.
    pub faults: Option<Vec<PlannedFault>>,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            cells: 3,
            hosts_per_cell: 3,
            servers: 24,
            actions: 240,
            seconds: 30,
            max_faults: 16,
            max_delay_ms: 20,
            max_latency_ms: 400,
            faults: None,
        }
    }
}

impl Scenario {
    /// The names of cells with hosts.
    pub fn cell_names(&self) -> Vec<String> {
        (1..=self.cells).map(|number| format!("cell{number}")).collect()
    }

    /// Every host with its cell.
    pub fn hosts(&self) -> Vec<(String, String)> {
        let of_cell = |cell: String| (1..=self.hosts_per_cell).map(move |number| (cell.clone(), format!("{cell}-host{number}")));
        self.cell_names().into_iter().flat_map(of_cell).collect()
    }
}
