//! Compute nodes: the hypervisors of a cell's hosts, with their resources and what is used of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A hypervisor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ComputeNode {
    /// The id in this cell's database, which old microversions show.
    pub id: i32,
    /// Also the uuid of the node's resource provider.
    pub uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    pub host: String,
    pub hypervisor_hostname: String,
    pub hypervisor_type: String,
    pub hypervisor_version: i32,
    pub host_ip: String,
    pub vcpus: i32,
    pub memory_mb: i32,
    pub local_gb: i32,
    pub vcpus_used: i32,
    pub memory_mb_used: i32,
    pub local_gb_used: i32,
    pub running_vms: i32,
    /// The number of servers with a task state.
    pub current_workload: i32,
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// JSON text, as the hypervisor reports it.
    pub cpu_info: String,
    /// The uuid of the host's compute service.
    pub service_id: Uuid,
    /// True if the API database has a mapping of the host.
    pub mapped: bool,
}

impl ComputeNode {
    /// Makes a host's simulated hypervisor, without resources yet and without overcommit.
    pub fn new(uuid: Uuid, host: &str, service_id: Uuid, created_at: DateTime<Utc>) -> ComputeNode {
        ComputeNode {
            id: 0,
            uuid,
            created_at,
            updated_at: None,
            host: host.to_owned(),
            hypervisor_hostname: host.to_owned(),
            hypervisor_type: "simulated".to_owned(),
            hypervisor_version: 1,
            host_ip: "127.0.0.1".to_owned(),
            vcpus: 0,
            memory_mb: 0,
            local_gb: 0,
            vcpus_used: 0,
            memory_mb_used: 0,
            local_gb_used: 0,
            running_vms: 0,
            current_workload: 0,
            cpu_allocation_ratio: 1.0,
            ram_allocation_ratio: 1.0,
            disk_allocation_ratio: 1.0,
            cpu_info: "{}".to_owned(),
            service_id,
            mapped: true,
        }
    }
}
