//! The bindings of a server's ports to hosts.

use uuid::Uuid;

use super::allocation::precheck;
use super::port_shares::check_target;
use crate::domain::fence::Fence;
use crate::domain::network_info::{Vif, VifAddress};
use crate::domain::reason;
use crate::saga::context::{RequestedNetwork, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::network::{FixedIp, Port};

/// Returns the addresses of these ports as a server's record has them.
pub fn addresses_of(ports: &[Port]) -> Vec<(Uuid, Vec<VifAddress>)> {
    let address = |fixed: &FixedIp| VifAddress { subnet_id: fixed.subnet_id, address: fixed.ip_address.clone() };
    ports.iter().map(|port| (port.id, port.fixed_ips.iter().map(address).collect())).collect()
}

/// Creates an inactive binding per port on the target host.
pub async fn bind_ports_at_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    if context.crosses_cells() && !world.network.supports_extended_bindings().await? {
        return Err(precheck("the network service has no extension binding-extended (Port Bindings Extended)"));
    }
    check_target(world, context).await?;
    let host = context.target()?.host.clone();
    for port in &context.ports {
        let keys = context.host_key(port.port_id, &host);
        match is_gone(world.network.create_binding(fence, port.port_id, &host, keys).await) {
            Ok(_) => {}
            Err(error @ (ServiceError::Unavailable { .. } | ServiceError::Stale(_))) => return Err(error.into()),
            Err(other) => {
                return Err(StepError::NextCandidate(reason!(
                    "Migration pre-check error: Failed to create port bindings for host {host}: {other}"
                )));
            }
        }
    }
    Ok(())
}

/// Undo: removes the target's bindings.
pub async fn unbind_ports_at_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &target.host).await?;
    }
    Ok(())
}

/// Activates the target's bindings.
pub async fn activate_target_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let host = context.target()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

/// Undo: activates the source's bindings, whatever failed before (NOVA-DIFFERENCES L15).
pub async fn activate_source_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let host = context.source()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

/// Activates the host's bindings, and creates missing ones with the providers that the host gives or gave to the port. A port that its user
/// has deleted stops no move: its interface stays without a network.
pub async fn activate_ports(world: &World, context: &ServerFacts, fence: Fence, host: &str) -> Result<(), StepError> {
    for port in &context.ports {
        let keys = context.host_key(port.port_id, host);
        if !is_gone(world.network.create_binding(fence, port.port_id, host, keys).await)? {
            is_gone(world.network.activate_binding(fence, port.port_id, host).await)?;
        }
    }
    Ok(())
}

/// Describes a server's interface as its record has it.
pub fn vif_of(port: &Port, request: &RequestedNetwork) -> Vif {
    Vif {
        port_id: port.id,
        network_id: port.network_id,
        network_name: port.network_name.clone(),
        mac_address: port.mac_address.clone(),
        fixed_ips: port.fixed_ips.iter().map(|ip| VifAddress { subnet_id: ip.subnet_id, address: ip.ip_address.clone() }).collect(),
        created_for_server: request.network_id.is_some(),
        tag: request.tag.clone(),
    }
}

/// True if the port does not exist any more.
pub fn is_gone(done: Result<(), ServiceError>) -> Result<bool, ServiceError> {
    match done {
        Ok(()) => Ok(false),
        Err(ServiceError::NotFound(_)) => Ok(true),
        Err(other) => Err(other),
    }
}
