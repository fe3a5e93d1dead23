//! What the scheduler knows of a compute host, and where it learns it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::flavor::Resources;
use crate::domain::host_query::ATTRIBUTES;
use crate::domain::server_group::ServerGroup;

/// The cell of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CellRef {
    /// Its name, unique among cells.
    pub name: String,
    /// Its id.
    pub uuid: Uuid,
    /// Takes no new servers: only moves that stay in it.
    pub disabled: bool,
}

/// A host aggregate that a host is a member of.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostAggregate {
    /// Its name.
    pub name: String,
    /// Its metadata; `availability_zone` names the zone.
    pub metadata: BTreeMap<String, String>,
}

/// One compute host at the moment of the decision. Filters and weighers read nothing else of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostState {
    /// Its cell.
    pub cell: CellRef,
    /// Its name, unique over cells (INVARIANTS C10).
    pub host: String,
    /// The hypervisor's name.
    pub node: String,
    /// The node's resource provider.
    pub provider: Uuid,
    /// Its compute service has reported lately.
    pub up: bool,
    /// An operator took the service out of use.
    pub disabled: bool,
    /// Why.
    pub disabled_reason: Option<String>,
    /// An operator said that the host is off.
    pub forced_down: bool,
    /// The aggregates it is a member of.
    pub aggregates: Vec<HostAggregate>,
    /// What can be allocated in all (ratios applied). The scheduler writes placement's figures here.
    pub total: Resources,
    /// What is left of it. The scheduler writes placement's figures here.
    pub free: Resources,
    /// The provider's traits. The scheduler adds those that placement names.
    pub traits: BTreeSet<String>,
    /// Moves and builds under way that this host takes part in.
    pub in_flight: u32,
    /// Its address.
    pub host_ip: String,
    /// The hypervisor that runs its guests.
    pub hypervisor_type: String,
    /// 1000000 * major + 1000 * minor + patch; 0 where it tells none.
    pub hypervisor_version: i32,
    /// Of its processors, as the hypervisor reports it.
    pub cpu_info: Value,
    /// Guests that run on it.
    pub num_instances: i32,
}

/// Whether a host has something under this name (see [`HostState::attribute`]).
pub fn is_attribute(name: &str) -> bool {
    ATTRIBUTES.contains(&name)
}

impl HostState {
    /// The zone that an aggregate puts the host in; none without one.
    pub fn availability_zone(&self) -> Option<&str> {
        self.aggregates.iter().find_map(|aggregate| aggregate.metadata.get("availability_zone")).map(String::as_str)
    }

    /// The host's value under the first of the names ([`ATTRIBUTES`]); the others lead into objects. Amounts are in MiB and
    /// GiB as the names say, and what can be allocated, ratios applied.
    pub fn attribute(&self, path: &[&str]) -> Option<Value> {
        let (name, inner) = path.split_first()?;
        let value = match *name {
            "cell_uuid" => json!(self.cell.uuid),
            "cpu_info" => self.cpu_info.clone(),
            "free_disk_mb" => json!(self.free.disk_gb * 1024),
            "free_ram_mb" => json!(self.free.memory_mb),
            "host" => json!(self.host),
            "host_ip" => json!(self.host_ip),
            "hypervisor_hostname" | "nodename" => json!(self.node),
            "hypervisor_type" => json!(self.hypervisor_type),
            "hypervisor_version" => json!(self.hypervisor_version),
            "num_instances" => json!(self.num_instances),
            "num_io_ops" => json!(self.in_flight),
            "total_usable_disk_gb" => json!(self.total.disk_gb),
            "total_usable_ram_mb" => json!(self.total.memory_mb),
            "uuid" => json!(self.provider),
            "vcpus_total" => json!(self.total.vcpu),
            "vcpus_used" => json!(self.total.vcpu - self.free.vcpu),
            _ => return None,
        };
        let found = inner.iter().try_fold(&value, |object, name| object.get(name))?;
        Some(found.clone()).filter(|found| !found.is_null())
    }

    /// The architecture of its guests. A simulated host, which tells none, has this machine's.
    pub fn architecture(&self) -> String {
        self.cpu_info["arch"].as_str().unwrap_or(std::env::consts::ARCH).to_ascii_lowercase()
    }

    /// All values that the host's aggregates give to a metadata key; a value may list several, separated by commas.
    pub fn aggregate_values(&self, key: &str) -> BTreeSet<&str> {
        let given = self.aggregates.iter().filter_map(|aggregate| aggregate.metadata.get(key));
        given.flat_map(|value| value.split(',')).map(str::trim).collect()
    }
}

/// The hosts of the cells that answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostsOfCells {
    /// In any order.
    pub hosts: Vec<HostState>,
    /// Cells that failed or did not answer in time; they contribute no host (INVARIANTS C2).
    pub silent_cells: Vec<String>,
}

/// Where host states come from: the cells' records and the API database.
#[async_trait]
pub trait HostStates: Send + Sync {
    /// The hosts of the named cells, or of all cells. Bounded in time: a cell that fails or does not answer is skipped.
    async fn host_states(&self, cells: Option<Vec<String>>) -> HostsOfCells;

    /// A server group with all its members and their owner hosts over **all** cells, down ones included (the ownership rows
    /// of the API database name them; a member without a host has none); none when there is no such group. The scheduler adds
    /// the hosts on which members hold claims.
    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, String>;

    /// The owner hosts of these servers over all cells, read in the same way. A server without a host, or that is gone, has none.
    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, String>;
}
