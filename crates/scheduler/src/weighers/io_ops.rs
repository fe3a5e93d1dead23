//! Prefers hosts with few moves and builds in progress: each of them uses disk and network.

use super::{HostState, HostWeigher, Request, SchedulerConfig};

/// The number in progress; its multiplier is negative.
pub struct IoOpsWeigher;

impl HostWeigher for IoOpsWeigher {
    fn name(&self) -> &'static str {
        "IoOpsWeigher"
    }

    fn weigh(&self, host: &HostState, _: &Request) -> f64 {
        f64::from(host.in_flight())
    }

    fn multiplier_option(&self) -> &'static str {
        "io_ops_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.io_ops_weight_multiplier
    }
}
