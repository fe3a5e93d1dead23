//! A compute host as a cell records it, in the values that the choice of a host looks at.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::compute_node::ComputeNode;

/// The version of this program's services. A lower version would prevent cross-cell moves.
pub const SERVICE_VERSION: i32 = 71;
/// The version of compute services from which on a host takes ports with resource requests.
pub const PORT_REQUESTS_SINCE: i32 = 71;

/// A host's compute service, without its signs of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostService {
    /// The service's id.
    pub uuid: Uuid,
    /// The host's name.
    pub host: String,
    /// True if an operator wants no new servers there.
    pub disabled: bool,
    /// The operator's reason.
    pub disabled_reason: Option<String>,
    /// True if an operator vouches that the host is off.
    pub forced_down: bool,
    /// The version of the host's program.
    pub version: i32,
}

/// A host's compute node.
#[derive(Clone, PartialEq, Debug)]
pub struct HostNode {
    /// Also the id of the node's resource provider.
    pub uuid: Uuid,
    /// The host's name.
    pub host: String,
    /// The hypervisor's name.
    pub hypervisor_hostname: String,
    /// `QEMU` and so on.
    pub hypervisor_type: String,
    /// Three numbers in one: 2006001 is 2.6.1.
    pub hypervisor_version: i32,
    /// The host's address.
    pub host_ip: String,
    /// The number of guests.
    pub running_vms: i32,
    /// The number of servers with a task state.
    pub current_workload: i32,
    /// The hypervisor's report of its processors; null if it reports none.
    pub cpu_info: Value,
}

/// An aggregate as its hosts have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostAggregate {
    /// The name.
    pub name: String,
    /// The metadata.
    pub metadata: BTreeMap<String, String>,
}

/// A compute node.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeRecord {
    /// The record.
    pub row: ComputeNode,
    /// The values that decisions look at.
    pub facts: Arc<HostNode>,
}

impl NodeRecord {
    /// Takes the facts from the node's record.
    pub fn new(row: ComputeNode) -> NodeRecord {
        let facts = HostNode {
            uuid: row.uuid,
            host: row.host.clone(),
            hypervisor_hostname: row.hypervisor_hostname.clone(),
            hypervisor_type: row.hypervisor_type.clone(),
            hypervisor_version: row.hypervisor_version,
            host_ip: row.host_ip.clone(),
            running_vms: row.running_vms,
            current_workload: row.current_workload,
            // Null if it cannot be parsed.
            cpu_info: serde_json::from_str(&row.cpu_info).unwrap_or_default(),
        };
        NodeRecord { row, facts: Arc::new(facts) }
    }
}

/// A compute node and the service of its host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostRecord {
    pub service: Arc<HostService>,
    pub node: Arc<NodeRecord>,
}

/// The hosts to name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhichHosts {
    /// All.
    All,
    /// The hosts of these resource providers.
    OfProviders(Arc<[Uuid]>),
    /// The host with this name.
    Named(String),
}
