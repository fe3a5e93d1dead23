//! The options of the scheduler (`[scheduler]` in the configuration file).

use serde::{Deserialize, Serialize};

use super::filters;
use super::weighers::{self, WEIGHERS};

/// Every option with its default.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// How many hosts are tried for one operation: the primary and its alternates (INVARIANTS C8). At least 1.
    pub max_attempts: u32,
    /// The filters that judge every host, by name, in this order. A hint whose filter is not among them is refused.
    #[serde(alias = "filters")]
    pub enabled_filters: Vec<String>,
    /// The weighers that order the hosts left, by name.
    pub weighers: Vec<String>,
    /// How many candidates placement is asked for at first, over all cells (INVARIANTS C10).
    pub max_placement_results: usize,
    /// The zone of hosts that no aggregate puts into one.
    pub default_availability_zone: String,
    /// Requests at once; more are answered "busy".
    pub max_in_flight: usize,
    /// Seconds after which a decision is given up.
    pub deadline: u64,
    /// Positive prefers hosts with much free memory, negative fills hosts up.
    pub ram_weight_multiplier: f64,
    /// The same for virtual CPUs.
    pub cpu_weight_multiplier: f64,
    /// The same for disk.
    pub disk_weight_multiplier: f64,
    /// Negative prefers hosts with few moves and builds under way.
    pub io_ops_weight_multiplier: f64,
    /// Positive keeps moves in their cell, negative prefers other cells, 0 ignores cells (INVARIANTS C6).
    pub cross_cell_move_weight_multiplier: f64,
    /// Positive brings soft-affinity groups together.
    pub soft_affinity_weight_multiplier: f64,
    /// Positive keeps soft-anti-affinity groups apart.
    pub soft_anti_affinity_weight_multiplier: f64,
}

impl Default for SchedulerConfig {
    fn default() -> SchedulerConfig {
        SchedulerConfig {
            max_attempts: 3,
            enabled_filters: filters::DEFAULT.iter().map(|name| (*name).to_owned()).collect(),
            weighers: WEIGHERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            max_placement_results: 1000,
            default_availability_zone: "nova".to_owned(),
            max_in_flight: 256,
            deadline: 60,
            ram_weight_multiplier: 1.0,
            cpu_weight_multiplier: 1.0,
            disk_weight_multiplier: 1.0,
            io_ops_weight_multiplier: -1.0,
            cross_cell_move_weight_multiplier: 1_000_000.0,
            soft_affinity_weight_multiplier: 1.0,
            soft_anti_affinity_weight_multiplier: 1.0,
        }
    }
}

/// What stops the start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A filter or weigher that does not exist.
    #[error("[scheduler] {option}: there is no {name}; known are {known}")]
    UnknownName {
        /// `enabled_filters` or `weighers`.
        option: &'static str,
        /// As configured.
        name: String,
        /// All there are.
        known: String,
    },
    /// A number that makes no sense.
    #[error("[scheduler] {option} must be {must_be}")]
    BadValue {
        /// Which option.
        option: &'static str,
        /// What it may be.
        must_be: &'static str,
    },
}

impl SchedulerConfig {
    /// Checks every value and name; called when the configuration is loaded.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_least_one = [
            ("max_attempts", self.max_attempts as usize),
            ("max_placement_results", self.max_placement_results),
            ("max_in_flight", self.max_in_flight),
            ("deadline", usize::try_from(self.deadline).unwrap_or(usize::MAX)),
        ];
        if let Some((option, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::BadValue { option, must_be: "at least 1" });
        }
        let multipliers = [
            ("ram_weight_multiplier", self.ram_weight_multiplier),
            ("cpu_weight_multiplier", self.cpu_weight_multiplier),
            ("disk_weight_multiplier", self.disk_weight_multiplier),
            ("io_ops_weight_multiplier", self.io_ops_weight_multiplier),
            ("cross_cell_move_weight_multiplier", self.cross_cell_move_weight_multiplier),
            ("soft_affinity_weight_multiplier", self.soft_affinity_weight_multiplier),
            ("soft_anti_affinity_weight_multiplier", self.soft_anti_affinity_weight_multiplier),
        ];
        if let Some((option, _)) = multipliers.iter().find(|(_, value)| !value.is_finite()) {
            return Err(ConfigError::BadValue { option, must_be: "a finite number" });
        }
        filters::enabled(self)?;
        weighers::enabled(self)?;
        Ok(())
    }
}
