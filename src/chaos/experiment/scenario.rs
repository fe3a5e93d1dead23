//! The contents of an experiment's file: topology, workload, faults, when to give up, and expectations. Missing keys have the defaults
//! here; the seed decides everything else.

use serde::{Deserialize, Serialize};

use super::fault::PlannedFault;
use super::journey::Journey;
use crate::env::random::Random;

/// A scenario (TOML; docs/EXPERIMENTS.md describes all keys). Users know it as an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an experiment")]
pub struct Scenario {
    /// A line that says what is shown.
    pub title: String,
    /// Says what goes wrong, and why the invariants must still hold.
    pub description: String,
    /// The seed for `chaos run`.
    pub seed: u64,
    pub topology: Topology,
    pub workload: Workload,
    /// The faults, in place of faults that the seed draws.
    pub faults: Option<Vec<PlannedFault>>,
    /// The maximum number of faults that the seed draws.
    pub max_faults: usize,
    pub abort: Abort,
    pub expect: Expect,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            title: String::new(),
            description: String::new(),
            seed: 1,
            topology: Topology::default(),
            workload: Workload::default(),
            faults: None,
            max_faults: 16,
            abort: Abort::default(),
            expect: Expect::default(),
        }
    }
}

/// The simulated cloud.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topology {
    /// The number of cells with hosts.
    pub cells: u32,
    pub hosts_per_cell: u32,
    /// The number of conductors over one API database. By default one if the file names its faults, else one or two, as the seed decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conductors: Option<u32>,
    /// The maximum delay of a message to or from a host, in milliseconds.
    pub max_delay_ms: u64,
    /// The maximum time of a hypervisor's operation, in milliseconds; the seed decides each.
    pub max_latency_ms: u64,
}

impl Default for Topology {
    fn default() -> Topology {
        Topology { cells: 3, hosts_per_cell: 3, conductors: None, max_delay_ms: 20, max_latency_ms: 400 }
    }
}

impl Scenario {
    /// Returns the number of conductors for a seed.
    pub fn conductors(&self, seed: u64) -> u32 {
        let number = self.topology.conductors.or(self.faults.is_some().then_some(1));
        number.unwrap_or_else(|| if Random::new(seed, "conductors").percent(50) { 2 } else { 1 })
    }
}

impl Topology {
    /// Returns the names of cells with hosts.
    pub fn cell_names(&self) -> Vec<String> {
        (1..=self.cells).map(|number| format!("cell{number}")).collect()
    }

    /// Returns all hosts with their cells.
    pub fn hosts(&self) -> Vec<(String, String)> {
        let of_cell = |cell: String| (1..=self.hosts_per_cell).map(move |number| (cell.clone(), format!("{cell}-host{number}")));
        self.cell_names().into_iter().flat_map(of_cell).collect()
    }
}

/// The users' requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// The number of servers that users try to have at once.
    pub servers: usize,
    /// The total number of requests that the seed decides. By default none if there are journeys, else 240.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<usize>,
    /// The number of seconds over which users send requests.
    pub seconds: u64,
    /// The servers with a fixed list of acts.
    pub journeys: Vec<Journey>,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload { servers: 24, actions: None, seconds: 30, journeys: Vec::new() }
    }
}

impl Workload {
    /// Returns the total number of requests that the seed decides.
    pub fn actions(&self) -> usize {
        self.actions.unwrap_or(if self.journeys.is_empty() { 240 } else { 0 })
    }
}

/// The conditions for giving up: then faults end, users stop, and the remaining state is judged. Nothing by default.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Abort {
    /// After this many violations of rules that must always hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<usize>,
    /// After this many requests that were answered 500 or above, or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_answers: Option<usize>,
    /// When this many servers are in ERROR at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_in_error: Option<usize>,
    /// After this many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<u64>,
}

/// Expectations beside those that always apply: invariants hold, users' servers exist, the cloud becomes quiet in time, and the audit is
/// clean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Nothing is in flight or owed this many seconds after the last fault.
    pub quiet_within_seconds: u64,
    /// Requires each fault of the file to happen, because a fault that does not happen shows nothing.
    pub all_faults: bool,
    /// The number of moves (resizes, migrations, live migrations and evacuations) that reach their target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived: Option<Bounds>,
    /// The number of moves that come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned: Option<Bounds>,
    /// The number of lives of the controller's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<Bounds>,
    /// The number of servers in ERROR at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_in_error: Option<Bounds>,
    /// The maximum 99th percentile of the time from a fault to the end of an affected migration, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_p99_ms: Option<u64>,
}

impl Default for Expect {
    fn default() -> Expect {
        Expect {
            quiet_within_seconds: 600,
            all_faults: true,
            arrived: None,
            returned: None,
            lives: None,
            servers_in_error: None,
            recovery_p99_ms: None,
        }
    }
}

/// A range of numbers, with both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

impl Bounds {
    /// True if the number is in the range.
    pub fn hold(&self, number: usize) -> bool {
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => write!(f, "{least}"),
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => write!(f, "any number"),
        }
    }
}
