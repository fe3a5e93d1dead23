//! The ports that a request has a network make for a server: they are refused before the request is accepted if the network cannot give them.

use uuid::Uuid;

use super::{ComputeApi, network_error};
use crate::http::compute::answer::{bad_request, conflict};
use crate::http::error::ApiError;
use crate::services::network::{GROUPS_NEED_SECURITY, PortRefusal};

/// Answers 400 unless the network can give a new server ports with these addresses, or with any where none is named.
pub async fn check_for_create(api: &ComputeApi, network: Uuid, addresses: Vec<Option<String>>) -> Result<(), ApiError> {
    match api.network.refusal_of_ports(network, addresses).await.map_err(network_error)? {
        None => Ok(()),
        Some(PortRefusal::AddressInUse { address, device }) if !device.is_empty() => {
            Err(bad_request(format!("Fixed IP address {address} is already in use on instance {device}.")))
        }
        Some(refusal) => Err(bad_request(refusal.to_string())),
    }
}

/// Answers 400 unless the network can give a server one more port, and 409 if another port has the address. A network that applies no
/// security groups may give a port without an address.
pub async fn check_for_attach(api: &ComputeApi, network: Uuid, address: Option<&str>) -> Result<(), ApiError> {
    let refusal = api.network.refusal_of_ports(network, vec![address.map(str::to_owned)]).await.map_err(network_error)?;
    match refusal {
        None => Ok(()),
        Some(PortRefusal::NoSubnet { port_security: false, .. }) if address.is_none() => Ok(()),
        Some(PortRefusal::NoSubnet { .. }) => Err(bad_request(GROUPS_NEED_SECURITY)),
        Some(refusal @ PortRefusal::AddressInUse { .. }) => Err(conflict(refusal.to_string())),
        Some(refusal) => Err(bad_request(refusal.to_string())),
    }
}
