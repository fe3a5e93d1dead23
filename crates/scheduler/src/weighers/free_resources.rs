//! Prefers hosts with much room (positive multiplier: spread) or little (negative: fill up).

use super::weigher;

/// Free memory.
pub struct RAMWeigher;

/// Free virtual CPUs.
pub struct CPUWeigher;

/// Free disk.
pub struct DiskWeigher;

weigher!(RAMWeigher by ram_weight_multiplier: |host, _| host.free().memory_mb as f64);

weigher!(CPUWeigher by cpu_weight_multiplier: |host, _| host.free().vcpu as f64);

weigher!(DiskWeigher by disk_weight_multiplier: |host, _| host.free().disk_gb as f64);
