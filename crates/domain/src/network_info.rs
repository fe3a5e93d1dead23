//! A copy of a server's ports in its record, so that showing a server needs no other service.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A server's virtual interfaces, in the order of their creation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NetworkInfo(pub Vec<Vif>);

/// A virtual interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Vif {
    /// The port.
    pub port_id: Uuid,
    /// Its network.
    pub network_id: Uuid,
    /// The network's name: the key under `addresses`.
    pub network_name: String,
    /// Its MAC address.
    pub mac_address: String,
    /// Its addresses.
    pub fixed_ips: Vec<VifAddress>,
    /// True if the port was made for the server, and so is deleted with it.
    pub created_for_server: bool,
    /// The user's device tag.
    pub tag: Option<String>,
}

/// An address of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VifAddress {
    /// The subnet.
    pub subnet_id: Uuid,
    /// The address.
    pub address: String,
}

impl VifAddress {
    /// 4 or 6.
    pub fn version(&self) -> u8 {
        if self.address.contains(':') { 6 } else { 4 }
    }
}

impl NetworkInfo {
    /// Returns all addresses, in order.
    pub fn addresses(&self) -> impl Iterator<Item = &VifAddress> {
        self.0.iter().flat_map(|vif| vif.fixed_ips.iter())
    }
}
