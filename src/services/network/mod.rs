//! The network service: networks, subnets, ports, and a binding of each port per host ("binding-extended").

mod attributes;
pub mod change;
mod cidr;
mod embedded;
pub mod limits;
mod protocols;
pub mod records;
pub mod values;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ServiceError;
use crate::domain::fence::Fence;
pub use embedded::{EmbeddedNetwork, PortFilter, QUOTA_EXCEEDED};

/// The MTU of a network whose request leaves it open.
const DEFAULT_MTU: i32 = 1450;

/// One address of a port.
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
    /// The host's agent has plugged it.
    pub plugged: bool,
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
    /// The server's id, or empty; what the port's owner last wrote, which need not be true.
    pub device_id: String,
    /// `compute:ZONE`, or empty.
    pub device_owner: String,
    /// The server that took the port, and no one can name another. Operations on servers go by this alone.
    #[serde(default)]
    pub server: Option<Uuid>,
    /// `ACTIVE` once its active binding is plugged, else `DOWN`.
    pub status: String,
    pub admin_state_up: bool,
    pub security_groups: Vec<Uuid>,
    pub bindings: Vec<PortBinding>,
    /// What the port's QoS policy asks of the host's network; none for an ordinary port.
    pub resource_request: Option<serde_json::Value>,
    pub tags: Vec<String>,
}

/// A port to make for a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NewPort {
    /// Chosen before, so that a retry makes no second port.
    pub id: Uuid,
    pub network_id: Uuid,
    pub project_id: String,
    /// A wanted address; any free one when none.
    pub fixed_ip: Option<String>,
    pub security_groups: Vec<Uuid>,
}

/// A network as the compute API needs it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network {
    pub id: Uuid,
    pub name: String,
    pub project_id: String,
    pub shared: bool,
}

/// What sagas, hosts and the compute API need of the network service.
#[async_trait]
pub trait NetworkService: Send + Sync {
    /// Networks that a project may use: its own and shared ones.
    async fn networks_for(&self, project_id: &str) -> Result<Vec<Network>, ServiceError>;
    async fn network(&self, id: Uuid) -> Result<Network, ServiceError>;
    async fn port(&self, id: Uuid) -> Result<Port, ServiceError>;
    /// The ports that the server took, in order of creation; not those that merely name it as their device.
    async fn ports_of(&self, server: Uuid) -> Result<Vec<Port>, ServiceError>;
    /// The names of the security groups that the ports of these servers are in, each once, in the order of the ports. A server
    /// without ports has no entry.
    async fn security_group_names(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<String>>, ServiceError>;
    /// The project's security groups: ids and names, in order of creation. The default group is not among them before it is needed.
    async fn security_groups_for(&self, project_id: &str) -> Result<Vec<(Uuid, String)>, ServiceError>;
    /// The security groups of a port from now on.
    async fn set_security_groups(&self, port: Uuid, groups: Vec<Uuid>) -> Result<(), ServiceError>;
    /// How many more ports the project may have; none when there is no limit.
    async fn room_for_ports(&self, project_id: &str) -> Result<Option<i64>, ServiceError>;
    /// True when several bindings per port are supported; a cross-cell move needs it.
    async fn supports_extended_bindings(&self) -> Result<bool, ServiceError>;
    /// Makes a port for the server; fine when that id exists already. Conflict when the address is taken or none is left.
    async fn create_port(&self, fence: Fence, port: NewPort) -> Result<Port, ServiceError>;
    /// Gives an existing port to the server. Conflict when another server or device has it.
    async fn claim_port(&self, fence: Fence, port: Uuid) -> Result<Port, ServiceError>;
    /// Takes the server off a port that it did not make: device and bindings are cleared. Fine when there is no such port.
    async fn release_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError>;
    /// Deletes a port that was made for the server. Fine when there is none.
    async fn delete_port(&self, fence: Fence, port: Uuid) -> Result<(), ServiceError>;
    /// A binding on the host; INACTIVE when the port has an active one elsewhere, else ACTIVE. Fine when it exists.
    async fn create_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError>;
    /// Makes the host's binding the active one and all others inactive. Fine when it is.
    async fn activate_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError>;
    /// Removes the host's binding. Fine when there is none.
    async fn delete_binding(&self, fence: Fence, port: Uuid, host: &str) -> Result<(), ServiceError>;
    /// The host's agent has plugged (or unplugged) the port: the `network-vif-plugged` event. Only the active binding's
    /// plug makes the port ACTIVE.
    async fn set_plugged(&self, port: Uuid, host: &str, plugged: bool) -> Result<(), ServiceError>;
    /// Every port that a server took or that has a binding; for the audit.
    async fn ports_in_use(&self) -> Result<Vec<Port>, ServiceError>;
}
