//! The scheduler's knowledge of compute hosts, and its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;

pub use crate::db::api::aggregates::HostAggregate;
use crate::db::cell::compute_nodes::ComputeNode;
use crate::db::cell::host_records::{HostRecord, KnownService, WhichHosts};
use crate::domain::flavor::Resources;
use crate::domain::host_network::VirtualFunction;
use crate::domain::host_query::ATTRIBUTES;
use crate::domain::server_group::ServerGroup;
use crate::services::placement::Offer;

/// The cell of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostCell {
    /// The name, unique among cells.
    pub name: String,
    /// The id.
    pub uuid: Uuid,
    /// True if the cell takes no new servers; its servers may move within it.
    pub disabled: bool,
}

/// A compute host at the moment of the decision. Filters and weighers read nothing else about it.
/// The records are shared with the memory of the cell and of placement, because a decision compares a thousand hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct HostState {
    /// The cell.
    pub cell: Arc<HostCell>,
    /// The node and its compute service.
    pub record: HostRecord,
    /// True if the compute service has reported lately.
    pub up: bool,
    /// The zone of its aggregates, or the default zone.
    pub availability_zone: Arc<str>,
    /// The aggregates that contain the host.
    pub aggregates: Arc<[HostAggregate]>,
    /// The node's resource provider as placement has it. None before the scheduler has asked placement.
    pub in_placement: Option<Offer>,
}

/// True if hosts have a property with this name (see [`HostState::attribute`]).
pub fn is_attribute(name: &str) -> bool {
    ATTRIBUTES.contains(&name)
}

impl HostState {
    /// The name, unique over cells (INVARIANTS C10).
    pub fn name(&self) -> &String {
        &self.node().host
    }

    /// The node.
    pub fn node(&self) -> &ComputeNode {
        &self.record.node.row
    }

    /// The compute service of the host.
    pub fn service(&self) -> &KnownService {
        &self.record.service
    }

    /// The id of the node's resource provider.
    pub fn provider(&self) -> Uuid {
        self.node().uuid
    }

    /// The total amounts that can be allocated, ratios applied.
    pub fn total(&self) -> Resources {
        self.in_placement.as_ref().map(|offer| offer.total).unwrap_or_default()
    }

    /// The free amounts.
    pub fn free(&self) -> Resources {
        self.in_placement.as_ref().map(|offer| offer.free).unwrap_or_default()
    }

    /// True if the provider has this trait.
    pub fn has_trait(&self, name: &str) -> bool {
        self.in_placement.as_ref().is_some_and(|offer| offer.provider.traits.iter().any(|held| held == name))
    }

    /// The number of moves and builds in progress on this host.
    pub fn in_flight(&self) -> u32 {
        u32::try_from(self.node().current_workload).unwrap_or_default()
    }

    /// Returns the property with this name ([`ATTRIBUTES`]); further names lead into objects. Amounts are in MiB and GiB as the names say,
    /// and amounts that can be allocated have the ratios applied.
    pub fn attribute(&self, path: &[&str]) -> Option<Value> {
        let (name, inner) = path.split_first()?;
        let value = match *name {
            "cell_uuid" => json!(self.cell.uuid),
            "cpu_info" => self.record.node.cpu_info.clone(),
            "free_disk_mb" => json!(self.free().disk_gb * 1024),
            "free_ram_mb" => json!(self.free().memory_mb),
            "host" => json!(self.name()),
            "host_ip" => json!(self.node().host_ip),
            "hypervisor_hostname" | "nodename" => json!(self.node().hypervisor_hostname),
            "hypervisor_type" => json!(self.node().hypervisor_type),
            "hypervisor_version" => json!(self.node().hypervisor_version),
            "num_instances" => json!(self.node().running_vms),
            "num_io_ops" => json!(self.in_flight()),
            "total_usable_disk_gb" => json!(self.total().disk_gb),
            "total_usable_ram_mb" => json!(self.total().memory_mb),
            "uuid" => json!(self.provider()),
            "vcpus_total" => json!(self.total().vcpu),
            "vcpus_used" => json!(self.total().vcpu - self.free().vcpu),
            _ => return None,
        };
        let found = inner.iter().try_fold(&value, |object, name| object.get(name))?;
        Some(found.clone()).filter(|found| !found.is_null())
    }

    /// Returns the architecture of its guests. A simulated host reports none and has this machine's.
    pub fn architecture(&self) -> String {
        self.record.node.cpu_info["arch"].as_str().unwrap_or(std::env::consts::ARCH).to_ascii_lowercase()
    }

    /// Returns all values that the host's aggregates give to a metadata key. A value may list several, separated by commas.
    pub fn aggregate_values(&self, key: &str) -> BTreeSet<&str> {
        let given = self.aggregates.iter().filter_map(|aggregate| aggregate.metadata.get(key));
        given.flat_map(|value| value.split(',')).map(str::trim).collect()
    }
}

/// The hosts of the cells that answered.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostsOfCells {
    /// In any order.
    pub hosts: Vec<HostState>,
    /// Cells that failed or did not answer in time. None of their hosts is considered (INVARIANTS C2).
    pub silent_cells: Vec<String>,
}

/// The source of host states: the cells' records and the API database.
#[async_trait]
pub trait HostStates: Send + Sync {
    /// Returns these hosts of the named cells, or of all cells, as the cells' records are now. Bounded in time: a cell that fails or does not
    /// answer is skipped.
    async fn host_states(&self, cells: Option<Vec<String>>, hosts: WhichHosts) -> HostsOfCells;

    /// Returns the virtual functions (SR-IOV) that no port has, by host. Bounded in time: a host that does not answer has no entry.
    async fn free_functions(&self, hosts: &[HostState]) -> BTreeMap<String, Vec<VirtualFunction>>;

    /// Returns a server group with all members and the hosts that own them over **all** cells, even silent ones, because the ownership rows
    /// of the API database name them. A member without a host has none. None if there is no such group. The scheduler adds the hosts on
    /// which members hold claims.
    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, String>;

    /// Returns the hosts that own these servers over all cells, in the same way. A server without a host, or one that is gone, has none.
    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, String>;
}
