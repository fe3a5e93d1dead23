//! Prefers hosts with few moves and builds under way: each costs disk and network.

use super::{HostState, HostWeigher, Request, SchedulerConfig};

/// The number in flight; its multiplier is negative.
pub struct IoOpsWeigher;

impl HostWeigher for IoOpsWeigher {
    fn weigh(&self, host: &HostState, _: &Request) -> f64 {
        f64::from(host.in_flight)
    }

    fn multiplier_option(&self) -> &'static str {
        "io_ops_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.io_ops_weight_multiplier
    }
}
