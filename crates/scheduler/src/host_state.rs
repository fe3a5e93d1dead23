//! The scheduler's knowledge of compute hosts.

use std::collections::BTreeSet;
use std::sync::Arc;

use cellshift_domain::compute_host::{HostAggregate, HostNode, HostService};
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_query::ATTRIBUTES;
use cellshift_neighbours::placement::Offer;
use serde_json::{Value, json};
use uuid::Uuid;

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
    /// The compute service.
    pub service: Arc<HostService>,
    /// The node.
    pub node: Arc<HostNode>,
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
        &self.node.host
    }

    /// The id of the node's resource provider.
    pub fn provider(&self) -> Uuid {
        self.node.uuid
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
        u32::try_from(self.node.current_workload).unwrap_or_default()
    }

    /// Returns the property with this name ([`ATTRIBUTES`]); further names lead into objects. Amounts are in MiB and GiB as the names say,
    /// and amounts that can be allocated have the ratios applied.
    pub fn attribute(&self, path: &[&str]) -> Option<Value> {
        let (name, inner) = path.split_first()?;
        let value = match *name {
            "cell_uuid" => json!(self.cell.uuid),
            "cpu_info" => self.node.cpu_info.clone(),
            "free_disk_mb" => json!(self.free().disk_gb * 1024),
            "free_ram_mb" => json!(self.free().memory_mb),
            "host" => json!(self.name()),
            "host_ip" => json!(self.node.host_ip),
            "hypervisor_hostname" | "nodename" => json!(self.node.hypervisor_hostname),
            "hypervisor_type" => json!(self.node.hypervisor_type),
            "hypervisor_version" => json!(self.node.hypervisor_version),
            "num_instances" => json!(self.node.running_vms),
            "num_io_ops" => json!(self.in_flight()),
            "total_usable_disk_gb" => json!(self.total().disk_gb),
            "total_usable_ram_mb" => json!(self.total().memory_mb),
            "uuid" => json!(self.provider()),
            "vcpus_total" => json!(self.total().vcpu),
            "vcpus_used" => json!(self.total().vcpu - self.free().vcpu),
            _ => return None,
        };
        let field = inner.iter().try_fold(&value, |object, name| object.get(name))?;
        Some(field.clone()).filter(|field| !field.is_null())
    }

    /// Returns the architecture of its guests. A simulated host reports none and has this machine's.
    pub fn architecture(&self) -> String {
        self.node.cpu_info["arch"].as_str().unwrap_or(std::env::consts::ARCH).to_ascii_lowercase()
    }

    /// Returns all values that the host's aggregates give to a metadata key. A value may list several, separated by commas.
    pub fn aggregate_values(&self, key: &str) -> BTreeSet<&str> {
        let values = self.aggregates.iter().filter_map(|aggregate| aggregate.metadata.get(key));
        values.flat_map(|value| value.split(',')).map(str::trim).collect()
    }
}
