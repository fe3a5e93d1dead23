//! The options of hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use cellshift_domain::flavor::Resources;

use crate::live::LiveOptions;
use crate::virt::Operation;

/// The options of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct HostOptions {
    /// The number of virtual CPUs that may be claimed per CPU.
    pub cpu_allocation_ratio: f64,
    /// The amount of memory that may be claimed per amount present.
    pub ram_allocation_ratio: f64,
    /// The amount of disk that may be claimed per amount present.
    pub disk_allocation_ratio: f64,
    /// The duration of each operation of the simulated hypervisor; zero if it has no entry.
    pub latencies: BTreeMap<Operation, Duration>,
    /// The pause between two writes of running guests; zero for never.
    pub tick: Duration,
    /// The time within which the network must plug a starting guest's ports.
    pub vif_plug_timeout: Duration,
    /// The pause between two questions for interrupted guests that the host was not allowed to run.
    pub resume_interval: Duration,
    /// The time limit of an answer.
    pub oracle_patience: Duration,
    /// The pause between two looks for forgotten servers; zero for never.
    pub forget_interval: Duration,
    /// The maximum number of requests at work and waiting. Beyond it the host is busy.
    pub max_requests: usize,
    /// True if the host makes trials (`HostQuery::Trial`): for tests, experiments and the demo.
    pub trials: bool,
    /// The options of live migrations.
    pub live: LiveOptions,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            latencies: BTreeMap::new(),
            tick: Duration::from_secs(1),
            vif_plug_timeout: Duration::from_secs(300),
            resume_interval: Duration::from_secs(2),
            oracle_patience: Duration::from_secs(10),
            forget_interval: Duration::from_secs(3600),
            max_requests: 256,
            trials: false,
            live: LiveOptions::default(),
        }
    }
}

impl HostOptions {
    pub(crate) fn latency(&self, operation: Operation) -> Duration {
        self.latencies.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the amounts that may be claimed of this capacity: each class times its ratio, rounded down.
    pub fn claimable(&self, capacity: &Resources) -> Resources {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "capacities are far below 2^52")]
        let times = |amount: i64, ratio: f64| (amount as f64 * ratio).floor() as i64;
        Resources {
            vcpu: times(capacity.vcpu, self.cpu_allocation_ratio),
            memory_mb: times(capacity.memory_mb, self.ram_allocation_ratio),
            disk_gb: times(capacity.disk_gb, self.disk_allocation_ratio),
        }
    }
}
