//! The options of the scheduler (`[scheduler]` in the configuration file).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filters;
use super::weighers::{self, WEIGHERS};

/// All options with their defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// The maximum number of hosts that are tried for an operation: the primary and its alternates (INVARIANTS C8). At least 1.
    pub max_attempts: u32,
    /// The names of the filters, in the order in which they judge each host. A hint whose filter is missing is refused.
    #[serde(alias = "filters")]
    pub enabled_filters: Vec<String>,
    /// The names of the weighers that order the remaining hosts.
    pub weighers: Vec<String>,
    /// The number of candidates that placement is asked for first, over all cells (INVARIANTS C10).
    pub max_placement_results: usize,
    /// The number of best hosts from which one is drawn at random. At least 1: the best.
    pub host_subset_size: usize,
    /// If true, hosts with the same best weight are tried in random order; if false, by name.
    pub shuffle_best_same_weighed_hosts: bool,
    /// The zone of hosts without an aggregate that names one.
    pub default_availability_zone: String,
    /// The maximum number of concurrent requests. Further requests are answered "busy".
    pub max_in_flight: usize,
    /// The time limit of a decision in seconds.
    pub deadline: u64,
    /// Positive prefers hosts with much free memory, negative hosts with little.
    pub ram_weight_multiplier: f64,
    /// Positive prefers hosts with many free virtual CPUs, negative hosts with few.
    pub cpu_weight_multiplier: f64,
    /// Positive prefers hosts with much free disk, negative hosts with little.
    pub disk_weight_multiplier: f64,
    /// Negative prefers hosts with few moves and builds in progress.
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
            host_subset_size: 1,
            shuffle_best_same_weighed_hosts: true,
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

/// The reason why the start is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such filter or weigher.
    #[error("[scheduler] {option}: there is no {name}; known are {names}")]
    UnknownName {
        /// The option: `enabled_filters` or `weighers`.
        option: &'static str,
        /// The configured name.
        name: String,
        /// All names.
        names: String,
    },
    /// A number is out of bounds.
    #[error("[scheduler] {option} must be {must_be}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// The allowed values.
        must_be: &'static str,
    },
}

impl SchedulerConfig {
    /// Checks all values and names. Called when the configuration is loaded.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_least_one = [
            ("max_attempts", self.max_attempts as usize),
            ("max_placement_results", self.max_placement_results),
            ("host_subset_size", self.host_subset_size),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_checked() {
        let parse = |text: &str| toml::from_str::<SchedulerConfig>(text);
        assert_eq!(parse("").unwrap(), SchedulerConfig::default());
        assert!(SchedulerConfig::default().validate().is_ok());
        assert!(parse("max_atempts = 2").is_err(), "an unknown key");
        for wrong in ["max_attempts = 0", "host_subset_size = 0", "filters = [\"NoFilter\"]", "ram_weight_multiplier = nan"] {
            assert!(parse(wrong).unwrap().validate().is_err(), "{wrong}");
        }
    }
}
