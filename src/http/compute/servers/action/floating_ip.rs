//! `addFloatingIp` and `removeFloatingIp`, up to microversion 2.43: lead a floating IP of the caller's to one of a server's fixed addresses.

use actix_web::http::StatusCode;
use uuid::Uuid;

use super::ActionRequest;
use crate::domain::network_info::NetworkInfo;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, no_such_resource, not_found};
use crate::http::compute::proxies::scope_of;
use crate::http::compute::servers::{network_error, schemas};
use crate::http::error::ApiError;
use crate::services::ServiceError;

/// The last microversion with these actions.
const LAST: u16 = 43;

pub(super) async fn add(asked: &ActionRequest<'_>) -> Answer {
    if !asked.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    schemas::ADD_FLOATING_IP.check(asked.version, asked.body).await?;
    let server = asked.api.load(asked.caller, asked.id, "os_compute_api:os-floating-ips:add").await?;
    let wanted = &asked.body["addFloatingIp"];
    let address = wanted["address"].as_str().unwrap_or_default();
    let (port, fixed) = fixed_address(&server.network, wanted["fixed_address"].as_str(), asked.id, address)?;
    let (floating, _) = find(asked, address).await?.ok_or_else(|| not_found("floating IP not found"))?;
    asked.api.network.lead_floating_ip(scope_of(asked.caller), floating, Some((port, fixed))).await.map_err(|error| match error {
        ServiceError::Forbidden(_) | ServiceError::Unavailable { .. } => network_error(error),
        // Nova says no more about any refusal of the network service.
        other => {
            log::debug!("floating IP {address} cannot lead to port {port}: {other}");
            bad_request(format!("Floating IP {address} association has failed."))
        }
    })?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn remove(asked: &ActionRequest<'_>) -> Answer {
    if !asked.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    schemas::REMOVE_FLOATING_IP.check(asked.version, asked.body).await?;
    let server = asked.api.load(asked.caller, asked.id, "os_compute_api:os-floating-ips:remove").await?;
    let address = asked.body["removeFloatingIp"]["address"].as_str().unwrap_or_default();
    let absent = || not_found(format!("Floating IP not found for address {address}."));
    let (floating, port) = find(asked, address).await?.ok_or_else(absent)?;
    if !server.network.0.iter().any(|vif| Some(vif.port_id) == port) {
        return Err(conflict(format!("Floating IP {address} is not associated with instance {}.", asked.id)));
    }
    asked.api.network.lead_floating_ip(scope_of(asked.caller), floating, None).await.map_err(network_error)?;
    empty(StatusCode::ACCEPTED)
}

async fn find(asked: &ActionRequest<'_>, address: &str) -> Result<Option<(Uuid, Option<Uuid>)>, ApiError> {
    asked.api.network.floating_ip_with(scope_of(asked.caller), address.to_owned()).await.map_err(network_error)
}

/// Returns the port with the wanted fixed address, or with the server's first of IPv4.
fn fixed_address(network: &NetworkInfo, wanted: Option<&str>, id: &str, floating: &str) -> Result<(Uuid, String), ApiError> {
    if network.0.is_empty() {
        return Err(bad_request("Instance network is not ready yet"));
    }
    let mut held = network.0.iter().flat_map(|vif| vif.fixed_ips.iter().map(|fixed| (vif.port_id, fixed)));
    let mut first = held.clone().peekable();
    if first.peek().is_none() {
        return Err(bad_request("No fixed IPs associated to instance"));
    }
    let found = match wanted {
        Some(wanted) => held.find(|(_, fixed)| fixed.address == wanted),
        None => first.find(|(_, fixed)| fixed.version() == 4),
    };
    let none = || match wanted {
        Some(_) => bad_request("Specified fixed address not assigned to instance"),
        None => bad_request(format!(
            "Unable to associate floating IP {floating} to any fixed IPs for instance {id}. Instance has no fixed IPv4 addresses to \
             associate."
        )),
    };
    found.map(|(port, fixed)| (port, fixed.address.clone())).ok_or_else(none)
}
