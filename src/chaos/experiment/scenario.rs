//! What an experiment's file says: a topology, how much is asked of it, how much goes wrong, when to give up and what must hold. What a
//! file does not say has the defaults here, and what neither says the seed decides.

use serde::{Deserialize, Serialize};

use super::fault::PlannedFault;
use super::journey::Journey;
use super::random::Random;

/// A scenario (TOML; docs/EXPERIMENTS.md describes every key).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// One line: what is shown.
    pub title: String,
    /// What goes wrong, and why it must hold all the same.
    pub description: String,
    /// The seed under which `chaos run` runs it.
    pub seed: u64,
    pub topology: Topology,
    pub workload: Workload,
    /// Faults to use in place of those that the seed would draw.
    pub faults: Option<Vec<PlannedFault>>,
    /// Faults that the seed draws at most; it says how many and which.
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

/// The cloud.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topology {
    /// Cells with hosts.
    pub cells: u32,
    pub hosts_per_cell: u32,
    /// Conductors over one API database; without, one where the file names its faults, else one or two, as the seed has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conductors: Option<u32>,
    /// The longest way of a message to or from a host, in milliseconds.
    pub max_delay_ms: u64,
    /// The longest time that an operation of a hypervisor takes, in milliseconds; the seed says how long each does.
    pub max_latency_ms: u64,
}

impl Default for Topology {
    fn default() -> Topology {
        Topology { cells: 3, hosts_per_cell: 3, conductors: None, max_delay_ms: 20, max_latency_ms: 400 }
    }
}

impl Scenario {
    /// How many conductors there are under a seed.
    pub fn conductors(&self, seed: u64) -> u32 {
        let named = self.topology.conductors.or(self.faults.is_some().then_some(1));
        named.unwrap_or_else(|| if Random::new(seed, "conductors").percent(50) { 2 } else { 1 })
    }
}

impl Topology {
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

/// What users ask.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Servers that users try to have at once.
    pub servers: usize,
    /// What users ask for in all, as the seed has it; without, none where there are journeys, else 240.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<usize>,
    /// Over how many seconds they ask.
    pub seconds: u64,
    /// Servers whose users know what they want.
    pub journeys: Vec<Journey>,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload { servers: 24, actions: None, seconds: 30, journeys: Vec::new() }
    }
}

impl Workload {
    /// What users ask for in all, as the seed has it.
    pub fn actions(&self) -> usize {
        self.actions.unwrap_or(if self.journeys.is_empty() { 240 } else { 0 })
    }
}

/// When the experiment gives up: faults end and users stop, and what is left is judged. Nothing that is not named.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Abort {
    /// After so many violations of what must hold at every instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<usize>,
    /// After so many answers of 500 and above, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_answers: Option<usize>,
    /// When so many servers are in ERROR at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_in_error: Option<usize>,
    /// After so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<u64>,
}

/// What must hold beside the invariants, which always must: users' servers are there, all is quiet in time, and the audit is clean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Nothing is in flight and nothing owed so many seconds after the last fault.
    pub quiet_within_seconds: u64,
    /// Each fault of the file happens: one that waits in vain shows nothing.
    pub all_faults: bool,
    /// Moves (resizes and migrations) that reach their target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived: Option<Bounds>,
    /// Moves that come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned: Option<Bounds>,
    /// Lives of the controller's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<Bounds>,
    /// Servers in ERROR at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_in_error: Option<Bounds>,
    /// From a fault to the end of a migration that it met: the 99th percentile, in milliseconds, at most.
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

/// From how many to how many, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

impl Bounds {
    /// Whether a number lies between them.
    pub fn hold(&self, found: usize) -> bool {
        self.at_least.is_none_or(|least| found >= least) && self.at_most.is_none_or(|most| found <= most)
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
