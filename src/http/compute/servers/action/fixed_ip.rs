//! `addFixedIp` and `removeFixedIp`, up to microversion 2.43: one more, or one fewer, address of a port that the server has.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::http::compute::answer::{Answer, bad_request, empty, no_such_resource, not_found};
use crate::http::compute::body::rules::{IpAddress, rules};
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::servers::{access, network_error};
use crate::http::error::ApiError;
use crate::saga::context::{AddedAddress, PortAddress, RemovedAddress, Request};
use crate::services::ServiceError;

/// The last microversion with these actions.
const LAST: u16 = 43;

pub(super) static ADD: Body<Addition> = Body::within("addFixedIp", ALWAYS);
pub(super) static REMOVE: Body<Removal> = Body::within("removeFixedIp", ALWAYS);

rules! {
    /// The id of a network, in a form that older networks had.
    NetworkId = json!({"type": ["string", "number"], "minLength": 1, "maxLength": 36});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Addition {
    #[serde(rename = "networkId")]
    #[schemars(with = "NetworkId")]
    network_id: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    #[schemars(with = "IpAddress")]
    address: String,
}

pub(super) async fn add(action: &ActionRequest<'_>) -> Answer {
    if !action.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    let Addition { network_id } = action.read(&ADD).await?;
    let located = located(action, "os_compute_api:os-multinic:add").await?;
    let network = network_id.as_str().map_or_else(|| network_id.to_string(), str::to_owned);
    let ports = action.api.network.ports_of(located.instance.uuid).await.map_err(network_error)?;
    let port = ports.iter().find(|port| port.network_id.to_string() == network);
    let port = port.ok_or_else(|| not_found(format!("Instance {} has no port on network {network:.40}.", action.id)))?;
    // Of the port's subnets the first of IPv4, as a new port would have it.
    let subnet =
        port.fixed_ips.iter().find(|fixed| !fixed.ip_address.contains(':')).or(port.fixed_ips.first()).map(|fixed| fixed.subnet_id);
    let subnet = subnet.ok_or_else(|| bad_request(format!("Port {} has no address, so it has no subnet to take one of.", port.id)))?;
    let fixed = action.api.network.choose_fixed_ip(port.id, subnet).await.map_err(refused)?;
    let request = AddedAddress(PortAddress { port_id: port.id, fixed });
    action.api.begin(action.caller, &located.instance, Request::AddFixedIp(request)).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn remove(action: &ActionRequest<'_>) -> Answer {
    if !action.version.at_most(LAST) {
        return Err(no_such_resource());
    }
    let Removal { address } = action.read(&REMOVE).await?;
    let located = located(action, "os_compute_api:os-multinic:remove").await?;
    let ports = action.api.network.ports_of(located.instance.uuid).await.map_err(network_error)?;
    let mut held = ports.iter().flat_map(|port| port.fixed_ips.iter().map(|fixed| (port.id, fixed)));
    let absent = || bad_request(format!("Instance {} doesn't have fixed IP '{address}'.", action.id));
    let (port_id, fixed) = held.find(|(_, fixed)| fixed.ip_address == address).ok_or_else(absent)?;
    let request = RemovedAddress(PortAddress { port_id, fixed: fixed.clone() });
    action.api.begin(action.caller, &located.instance, Request::RemoveFixedIp(request)).await?;
    empty(StatusCode::ACCEPTED)
}

async fn located(action: &ActionRequest<'_>, rule: &str) -> Result<Located, ApiError> {
    let located = action.api.locate_unlocked(action.caller, action.id, rule).await?;
    access::require_no_task(&located.instance, "change the addresses of")?;
    Ok(located)
}

/// Converts a refusal of the network service: a subnet without a free address and a port with the most addresses are 400.
fn refused(error: ServiceError) -> ApiError {
    match error {
        ServiceError::Conflict(why) => bad_request(why),
        ServiceError::Invalid(why) => bad_request(why),
        other => network_error(other),
    }
}
