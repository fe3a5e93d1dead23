//! Prefers hosts with much room (positive multiplier: spread) or little (negative: fill up).

use super::{HostState, HostWeigher, Request, SchedulerConfig};

/// Free memory.
pub struct RAMWeigher;

/// Free virtual CPUs.
pub struct CPUWeigher;

/// Free disk.
pub struct DiskWeigher;

impl HostWeigher for RAMWeigher {
    fn name(&self) -> &'static str {
        "RAMWeigher"
    }

    fn weigh(&self, host: &HostState, _: &Request) -> f64 {
        host.free().memory_mb as f64
    }

    fn multiplier_option(&self) -> &'static str {
        "ram_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.ram_weight_multiplier
    }
}

impl HostWeigher for CPUWeigher {
    fn name(&self) -> &'static str {
        "CPUWeigher"
    }

    fn weigh(&self, host: &HostState, _: &Request) -> f64 {
        host.free().vcpu as f64
    }

    fn multiplier_option(&self) -> &'static str {
        "cpu_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.cpu_weight_multiplier
    }
}

impl HostWeigher for DiskWeigher {
    fn name(&self) -> &'static str {
        "DiskWeigher"
    }

    fn weigh(&self, host: &HostState, _: &Request) -> f64 {
        host.free().disk_gb as f64
    }

    fn multiplier_option(&self) -> &'static str {
        "disk_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.disk_weight_multiplier
    }
}
