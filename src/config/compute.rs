//! The simulated hosts: their capacity, their networks, and the pace of what they do.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LiveMigration, Seconds};
use crate::domain::flavor::Resources;
use crate::domain::host_network::HostNetwork;
use crate::domain::network_agent::HostNetworks;
use crate::virt::hypervisor::Operation;

/// The simulated hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compute {
    /// Cores of each host.
    pub vcpus: u32,
    /// Memory of each host, in MiB.
    pub memory_mb: u32,
    /// Disk of each host, in GiB.
    pub disk_gb: u32,
    /// The number of virtual cores per core.
    pub cpu_allocation_ratio: f64,
    /// The allocation ratio of memory.
    pub ram_allocation_ratio: f64,
    /// The allocation ratio of disk.
    pub disk_allocation_ratio: f64,
    /// The interval at which a host reports that it is alive.
    pub heartbeat: Seconds,
    /// A host that has not reported for this time is down.
    pub service_down_time: Seconds,
    /// Of an agent: the time without a renewed word to its controllers after which it stops its guests itself (*self-fencing*); 0, the
    /// default, for never. At least 5 seconds.
    pub self_fence_after: Seconds,
    /// Of a controller: the time that is added to an agent's `self_fence_after` before its host counts as off, in which the agent notices that
    /// its time is over, and stops its guests. At least 2 seconds.
    pub self_fence_margin: Seconds,
    /// The number of live migrations that leave a host at once; further ones wait. At least 1.
    pub max_concurrent_live_migrations: u32,
    /// The seconds after which a shelved server leaves its host; 0 means in the same operation, -1 never.
    pub shelved_offload_time: i64,
    /// The interval at which shelved servers are looked at for that.
    pub shelved_poll_interval: Seconds,
    /// The time after which a deleted server is deleted for good; until then its user can restore it. 0, the default, deletes at once.
    pub reclaim_instance_interval: Seconds,
    /// The interval at which servers are looked at for interfaces whose ports are gone.
    pub port_poll_interval: Seconds,
    /// The milliseconds that a hypervisor operation takes, by its name: `define`, `start`, `guest_shutdown`, `power_off`, `pause`, `suspend`,
    /// `undefine`, `volume`, `vif` or `copy_disks`; 0 by default.
    pub latency_ms: BTreeMap<Operation, u64>,
    pub live_migration: LiveMigration,
    /// The number of hosts of each cell, from the first, that have the physical functions (SR-IOV) of `network`.
    pub sriov_hosts_per_cell: u32,
    /// The network of each host: bridges, physical functions, and what they guarantee.
    pub network: HostNetwork,
    /// The networks of single hosts, by the host's name, instead of `network`.
    pub network_of_hosts: BTreeMap<String, HostNetwork>,
}

impl Compute {
    /// Returns the capacity of each host, before ratios.
    pub fn capacity(&self) -> Resources {
        Resources { vcpu: self.vcpus.into(), memory_mb: self.memory_mb.into(), disk_gb: self.disk_gb.into() }
    }

    /// Returns the time without a renewed word after which an agent stops its guests itself; none for never.
    pub fn self_fence(&self) -> Option<Duration> {
        Some(self.self_fence_after.duration()).filter(|time| !time.is_zero())
    }

    /// Returns the networks of all hosts.
    pub fn networks(&self) -> HostNetworks {
        HostNetworks { usual: self.network.clone(), own: self.network_of_hosts.clone(), hosts_with_functions: self.sriov_hosts_per_cell }
    }
}

impl Default for Compute {
    fn default() -> Compute {
        Compute {
            vcpus: 16,
            memory_mb: 32_768,
            disk_gb: 200,
            cpu_allocation_ratio: 4.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            heartbeat: Seconds::whole(10),
            service_down_time: Seconds::whole(60),
            shelved_offload_time: 0,
            shelved_poll_interval: Seconds::whole(3600),
            reclaim_instance_interval: Seconds::whole(0),
            port_poll_interval: Seconds::whole(60),
            latency_ms: BTreeMap::new(),
            self_fence_after: Seconds::whole(0),
            self_fence_margin: Seconds::whole(10),
            max_concurrent_live_migrations: 1,
            live_migration: LiveMigration::default(),
            sriov_hosts_per_cell: 2,
            network: HostNetwork::default(),
            network_of_hosts: BTreeMap::new(),
        }
    }
}
