//! Prefers hosts with few moves and builds in progress: each of them uses disk and network.

use super::weigher;

/// The number in progress; its multiplier is negative.
pub struct IoOpsWeigher;

weigher!(IoOpsWeigher by io_ops_weight_multiplier: |host, _| f64::from(host.in_flight()));
