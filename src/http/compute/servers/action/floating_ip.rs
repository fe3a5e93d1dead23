//! `addFloatingIp` and `removeFloatingIp`, up to microversion 2.43: lead a floating IP of the caller's to one of a server's fixed addresses.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::ActionRequest;
use crate::domain::network_info::NetworkInfo;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, no_such_resource, not_found};
use crate::http::compute::body::rules::IpAddress;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::proxies::scope_of;
use crate::http::compute::servers::network_error;
use crate::http::error::ApiError;
use crate::services::ServiceError;

/// The last microversion with these actions.
const LAST: u16 = 43;

pub(super) static ADD: Body<Association> = Body::within("addFloatingIp", ALWAYS);
pub(super) static REMOVE: Body<Dissociation> = Body::within("removeFloatingIp", ALWAYS);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Association {
    #[schemars(with = "IpAddress")]
    address: String,
    #[serde(default)]
    #[schemars(with = "IpAddress")]
    fixed_address: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Dissociation {
    #[schemars(with = "IpAddress")]
    address: String,
}

pub(super) async fn add(action: &ActionRequest<'_>) -> Answer {
    if !action.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    let Association { address, fixed_address } = action.read(&ADD).await?;
    let server = action.api.load(action.caller, action.id, "os_compute_api:os-floating-ips:add").await?;
    let (port, fixed) = target(&server.network, fixed_address.as_deref(), action.id, &address)?;
    let (floating, _) = find(action, &address).await?.ok_or_else(|| not_found("floating IP not found"))?;
    action.api.network.lead_floating_ip(scope_of(action.caller), floating, Some((port, fixed))).await.map_err(|error| match error {
        ServiceError::Forbidden(_) | ServiceError::Unavailable { .. } => network_error(error),
        // Nova says no more about any refusal of the network service.
        other => {
            log::debug!("floating IP {address} cannot lead to port {port}: {other}");
            bad_request(format!("Floating IP {address} association has failed."))
        }
    })?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn remove(action: &ActionRequest<'_>) -> Answer {
    if !action.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    let Dissociation { address } = action.read(&REMOVE).await?;
    let server = action.api.load(action.caller, action.id, "os_compute_api:os-floating-ips:remove").await?;
    let absent = || not_found(format!("Floating IP not found for address {address}."));
    let (floating, port) = find(action, &address).await?.ok_or_else(absent)?;
    if !server.network.0.iter().any(|vif| Some(vif.port_id) == port) {
        return Err(conflict(format!("Floating IP {address} is not associated with instance {}.", action.id)));
    }
    action.api.network.lead_floating_ip(scope_of(action.caller), floating, None).await.map_err(network_error)?;
    empty(StatusCode::ACCEPTED)
}

async fn find(action: &ActionRequest<'_>, address: &str) -> Result<Option<(Uuid, Option<Uuid>)>, ApiError> {
    action.api.network.floating_ip_with(scope_of(action.caller), address.to_owned()).await.map_err(network_error)
}

/// Returns the port with the requested fixed address, or with the server's first of IPv4.
fn target(network: &NetworkInfo, requested: Option<&str>, id: &str, floating: &str) -> Result<(Uuid, String), ApiError> {
    if network.0.is_empty() {
        return Err(bad_request("Instance network is not ready yet"));
    }
    let mut held = network.0.iter().flat_map(|vif| vif.fixed_ips.iter().map(|fixed| (vif.port_id, fixed)));
    let mut first = held.clone().peekable();
    if first.peek().is_none() {
        return Err(bad_request("No fixed IPs associated to instance"));
    }
    let target = match requested {
        Some(address) => held.find(|(_, fixed)| fixed.address == address),
        None => first.find(|(_, fixed)| fixed.version() == 4),
    };
    let none = || match requested {
        Some(_) => bad_request("Specified fixed address not assigned to instance"),
        None => bad_request(format!(
            "Unable to associate floating IP {floating} to any fixed IPs for instance {id}. Instance has no fixed IPv4 addresses to \
             associate."
        )),
    };
    target.map(|(port, fixed)| (port, fixed.address.clone())).ok_or_else(none)
}
