//! The network service: networks, subnets, ports, and a binding per port and host ("binding-extended").

mod port_refusal;

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::host_network::{FUNCTION_VENDOR, VirtualFunction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ServiceError;
pub use port_refusal::{GROUPS_NEED_SECURITY, PortRefusal};

/// An address of a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FixedIp {
    pub subnet_id: Uuid,
    pub ip_address: String,
}

/// A port's binding to a host. A port has at most one ACTIVE binding (INVARIANTS D5).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PortBinding {
    pub host: String,
    /// `ACTIVE` or `INACTIVE`.
    pub status: String,
    pub vnic_type: String,
    pub vif_type: String,
    pub profile: serde_json::Value,
    /// True if the host's agent has plugged the binding.
    pub plugged: bool,
}

/// The key of a binding's profile that names the providers of the port's resources.
pub const ALLOCATION: &str = "allocation";

impl PortBinding {
    /// Returns the providers of the port's resources on this host, as the profile names them.
    pub fn allocation(&self) -> Option<&serde_json::Value> {
        self.profile.get(ALLOCATION).filter(|allocation| !allocation.is_null())
    }

    /// Returns the port's virtual function on this host, as the profile names it.
    pub fn function(&self) -> Option<FunctionKeys> {
        FunctionKeys::deserialize(&self.profile).ok()
    }
}

/// The keys of a binding's profile that name the port's virtual function on its host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionKeys {
    pub pci_slot: String,
    pub pci_vendor_info: String,
    pub physical_network: String,
}

impl From<&VirtualFunction> for FunctionKeys {
    fn from(function: &VirtualFunction) -> FunctionKeys {
        FunctionKeys {
            pci_slot: function.pci_slot.clone(),
            pci_vendor_info: FUNCTION_VENDOR.to_owned(),
            physical_network: function.physical_network.clone(),
        }
    }
}

/// The keys of a binding's profile that belong to its host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostKeys {
    /// The providers of the port's resources.
    pub allocation: Option<serde_json::Value>,
    pub function: Option<FunctionKeys>,
}

/// The keys of its host that a binding is to have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostKey {
    /// The binding's own keys, or those of `or` if the binding must be made: its host has had the port before.
    Kept { or: HostKeys },
    /// The keys of a host that has just been chosen.
    Are(HostKeys),
    /// Another `allocation`, or none; the function stays.
    AllocationIs(Option<serde_json::Value>),
}

/// A port.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Port {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub network_id: Uuid,
    pub network_name: String,
    pub mac_address: String,
    pub fixed_ips: Vec<FixedIp>,
    /// The server's id, or empty. The port's owner may write any text here.
    pub device_id: String,
    /// `compute:ZONE`, or empty.
    pub device_owner: String,
    /// The server that took the port. Users cannot write it, so operations on servers use only this field.
    #[serde(default)]
    pub server: Option<Uuid>,
    /// `ACTIVE` if the active binding is plugged, else `DOWN`.
    pub status: String,
    pub admin_state_up: bool,
    pub security_groups: Vec<Uuid>,
    pub bindings: Vec<PortBinding>,
    /// The VNIC type of new bindings.
    pub vnic_type: String,
    /// The physical network below the port's network; none for a tunnel between hosts.
    pub physical_network: Option<String>,
    /// The resources that the port's QoS policy requests from the host's network; none for an ordinary port.
    pub resource_request: Option<serde_json::Value>,
    pub tags: Vec<String>,
}

/// A port to make for a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewPort {
    /// Chosen in an earlier step, so that a retry makes no second port.
    pub id: Uuid,
    pub network_id: Uuid,
    pub project_id: String,
    /// The requested address; none means any free address.
    pub fixed_ip: Option<String>,
    pub security_groups: Vec<Uuid>,
}

/// A network's fields for the compute API.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub shared: bool,
    /// True for a network beyond the cloud, whose addresses are floating IPs.
    pub external: bool,
    /// True if ports that the network makes have port security, which security groups need.
    pub port_security_enabled: bool,
}

/// The caller's project and rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    pub project_id: String,
    pub admin: bool,
    /// True if the caller has the role manager in the project.
    pub manager: bool,
}

impl Scope {
    /// Returns the scope of an administrator in this project.
    pub fn admin(project_id: &str) -> Scope {
        Scope { project_id: project_id.to_owned(), admin: true, manager: true }
    }

    /// True if the project owns it, if it is shared, or if the caller is an administrator.
    pub fn may_see(&self, owner: &str, shared: bool) -> bool {
        self.admin || shared || self.project_id == owner
    }

    /// True if the project owns it, or if the caller is an administrator.
    pub fn may_change(&self, owner: &str) -> bool {
        self.may_see(owner, false)
    }
}

/// The network service's interface for sagas, hosts and the compute API.
#[async_trait]
pub trait NetworkService: Send + Sync {
    /// Returns the networks that a project may use: its own and shared ones.
    async fn networks_for(&self, project_id: &str) -> Result<Vec<Network>, ServiceError>;
    async fn network(&self, id: Uuid) -> Result<Network, ServiceError>;
    async fn port(&self, id: Uuid) -> Result<Port, ServiceError>;
    /// Returns the ports that the server took, oldest first. Leaves out ports that only name the server as their device.
    async fn ports_of(&self, server: Uuid) -> Result<Vec<Port>, ServiceError>;
    /// Returns the servers that took these ports. A port that is gone or that no server took has no entry.
    async fn holders(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Uuid>, ServiceError>;
    /// Returns the names of the security groups of these servers' ports, each once, in the order of the ports. A server without ports has
    /// no entry.
    async fn security_group_names(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError>;
    /// Returns ids and names of the project's security groups, oldest first. The default group appears once it is needed.
    async fn security_groups_for(&self, project_id: &str) -> Result<Vec<(Uuid, String)>, ServiceError>;
    /// Returns the floating IPs that lead to these ports, oldest first. A port without one has no entry.
    async fn floating_ips_of(&self, ports: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError>;
    /// Returns the id of the caller's floating IP with this address, and the port that it leads to.
    async fn floating_ip_with(&self, scope: Scope, address: String) -> Result<Option<(Uuid, Option<Uuid>)>, ServiceError>;
    /// Leads a floating IP of the caller's to a fixed address of a port, or frees it.
    async fn lead_floating_ip(&self, scope: Scope, id: Uuid, to: Option<(Uuid, String)>) -> Result<(), ServiceError>;
    /// Chooses a free address of the subnet for one more address of the port. The next call chooses another address, but a request that
    /// names this address may still get it. Conflict if none is free, invalid if the port has as many as it may have.
    async fn choose_fixed_ip(&self, port: Uuid, subnet: Uuid) -> Result<FixedIp, ServiceError>;
    /// Gives the server's port this address beside those that it has. Succeeds if it has it. Conflict if another port has it.
    async fn add_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError>;
    /// Takes this address from the server's port. Succeeds if the port or the address is gone. Invalid while a floating IP leads there.
    async fn remove_fixed_ip(&self, fence: Fence, port: Uuid, fixed: FixedIp) -> Result<(), ServiceError>;
    /// Replaces the security groups of a port.
    async fn set_security_groups(&self, port: Uuid, groups: Vec<Uuid>) -> Result<(), ServiceError>;
    /// Returns how many more ports the project may have; none if there is no limit.
    async fn room_for_ports(&self, project_id: &str) -> Result<Option<i64>, ServiceError>;
    /// Returns why the network cannot give a server ports with these addresses, or with any where none is named; none if it can now.
    async fn refusal_of_ports(&self, network: Uuid, addresses: Vec<Option<String>>) -> Result<Option<PortRefusal>, ServiceError>;
    /// True if a port may have several bindings, which a cross-cell move needs.
    async fn supports_extended_bindings(&self) -> Result<bool, ServiceError>;
    /// Makes a port for the server. Succeeds if the id exists already. Conflict if the address is taken or none is free.
    async fn create_port(&self, fence: Fence, port: NewPort) -> Result<Port, ServiceError>;
    /// Gives an existing port to the server. Conflict if another server or device has it.
    async fn claim_port(&self, fence: Fence, port: Uuid) -> Result<Port, ServiceError>;
    /// Releases a port that the server did not make: clears device and bindings. Succeeds if there is no such port.
    async fn release_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError>;
    /// Deletes a port that was made for the server. Succeeds if there is none.
    async fn delete_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError>;
    /// Creates a binding on the host: INACTIVE if another host's binding is active, else ACTIVE. The rest of its profile is the active
    /// binding's. Succeeds if it exists.
    async fn create_binding(&self, fence: Fence, port: Uuid, host: &str, keys: HostKey) -> Result<(), ServiceError>;
    /// Makes the host's binding active and all others inactive. Succeeds if that is so already.
    async fn activate_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError>;
    /// Removes the host's binding. Succeeds if there is none.
    async fn delete_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError>;
    /// Records that the host's agent has plugged or unplugged the port: the `network-vif-plugged` event. Only plugging the active binding
    /// makes the port ACTIVE.
    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), ServiceError>;
    /// Returns all ports that a server took or that have a binding, for the audit.
    async fn ports_in_use(&self) -> Result<Vec<Port>, ServiceError>;
}
