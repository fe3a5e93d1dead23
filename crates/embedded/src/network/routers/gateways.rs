//! Gateways of routers: a router's port on an external network. The port belongs to no project, so only administrators see it.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_domain::reason;
use cellshift_store::Conn;
use cellshift_store::columns::read_id;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::records::{GATEWAY, RouterRow};
use super::{addresses_of, bad_request, ports_of};
use crate::ServiceError;
use crate::network::cidr::Cidr;
use crate::network::floating_ips::records as floating_ips;
use crate::network::networks::records as network_table;
use crate::network::ports::addresses;
use crate::network::ports::records::{self as ports, PortRow};
use crate::network::ports::{Blank, blank_row};
use crate::network::records::{AddressRequest, Attributes, Scope, SubnetRecord};
use crate::network::subnets::records as subnet_table;
use crate::network::{in_use, networks};
use crate::transaction::TransactionError;

/// The gateway that a request names.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(in crate::network) struct GatewayRequest {
    network_id: Uuid,
    enable_snat: Option<bool>,
    #[serde(default)]
    external_fixed_ips: Vec<AddressRequest>,
}

impl GatewayRequest {
    /// True if the router is to translate addresses, which is the default.
    pub(in crate::network) fn enables_snat(&self) -> bool {
        self.enable_snat.unwrap_or(true)
    }
}

/// Takes the gateway out of a request's attributes. None if the request does not mention it. Only administrators choose addresses on an
/// external network or switch the translation of addresses off.
pub(in crate::network) fn take(
    scope: &Scope,
    action: &str,
    attributes: &mut Attributes,
) -> Result<Option<Option<GatewayRequest>>, ServiceError> {
    let Some(value) = attributes.remove("external_gateway_info") else { return Ok(None) };
    if let Some(name) = ["enable_snat", "external_fixed_ips"].into_iter().find(|name| value.get(name).is_some())
        && !scope.admin
    {
        return Err(ServiceError::Forbidden(reason!("rule:{action}:external_gateway_info:{name} is disallowed by policy")));
    }
    serde_json::from_value(value).map(Some).map_err(|e| ServiceError::Invalid(reason!("Invalid input for external_gateway_info: {e}.")))
}

/// Gives a router this gateway, or none. The caller holds the router's row. `id` is that of the gateway's port, if one is made.
pub(in crate::network) fn set(
    conn: &mut Conn,
    scope: &Scope,
    router: &RouterRow,
    request: Option<GatewayRequest>,
    id: Uuid,
    now: DateTime<Utc>,
) -> Result<(), TransactionError> {
    let router_id = read_id("routers.id", &router.id)?;
    let present = ports_of(conn, router_id)?.into_iter().find(|port| port.device_owner == GATEWAY);
    match (present, request) {
        (Some(port), Some(request)) if port.network_id == request.network_id.to_string() => readdress(conn, &port, &request),
        (present, request) => {
            if let Some(port) = present {
                refuse_needed(conn, router, &port)?;
                ports::delete(conn, &port.id)?;
            }
            match request {
                Some(request) => connect(conn, scope, router, request, id, now),
                None => Ok(()),
            }
        }
    }
}

/// Refuses to take a gateway away that floating IPs need.
fn refuse_needed(conn: &mut Conn, router: &RouterRow, port: &PortRow) -> Result<(), TransactionError> {
    if floating_ips::of_router(conn, &router.id)?.is_empty() {
        return Ok(());
    }
    Err(in_use(format!(
        "Gateway cannot be updated for router {}, since a gateway to external network {} is required by one or more floating IPs.",
        router.id, port.network_id
    )))
}

/// Gives a gateway other addresses on the network that it is on. If the request names none, it keeps its own.
fn readdress(conn: &mut Conn, port: &PortRow, request: &GatewayRequest) -> Result<(), TransactionError> {
    if request.external_fixed_ips.is_empty() {
        return Ok(());
    }
    refuse_gateway_addresses(conn, request)?;
    let (id, held) = (read_id("ports.id", &port.id)?, addresses_of(conn, std::slice::from_ref(port))?);
    // A request that names only a subnet leaves the address that the gateway has in it.
    let keep = |address: &AddressRequest| match (&address.ip_address, address.subnet_id) {
        (None, Some(subnet)) => {
            let present = held.iter().find(|held| held.subnet_id == subnet.to_string());
            AddressRequest { subnet_id: Some(subnet), ip_address: present.map(|held| held.ip_address.clone()) }
        }
        _ => address.clone(),
    };
    let requests: Vec<AddressRequest> = request.external_fixed_ips.iter().map(keep).collect();
    ports::clear_addresses(conn, &port.id)?;
    addresses::assign(conn, id, request.network_id, Some(&requests))?;
    Ok(())
}

fn connect(
    conn: &mut Conn,
    scope: &Scope,
    router: &RouterRow,
    request: GatewayRequest,
    id: Uuid,
    now: DateTime<Utc>,
) -> Result<(), TransactionError> {
    let network = request.network_id;
    // Held, so that the network does not cease to be external meanwhile.
    network_table::hold(conn, &network.to_string())?;
    if !networks::visible(conn, scope, network)?.external {
        return Err(bad_request("router", format!("Network {network} is not an external network")));
    }
    refuse_gateway_addresses(conn, &request)?;
    let present = ports_of(conn, read_id("routers.id", &router.id)?)?;
    let outside = addresses::subnets_of(conn, network)?;
    refuse_overlaps(conn, &present, &outside)?;
    let mac_address = addresses::mac_address(conn, id)?;
    let mut row = blank_row(Blank { id, network, project_id: String::new(), mac_address, now }, &[])?;
    row.device_id.clone_from(&router.id);
    row.device_owner = GATEWAY.to_owned();
    row.router_id = Some(router.id.clone());
    ports::insert(conn, QuotaGrant::without_check("a gateway's port belongs to no project"), &row)?;
    let chosen = (!request.external_fixed_ips.is_empty()).then_some(request.external_fixed_ips.as_slice());
    addresses::assign(conn, id, network, chosen)?;
    Ok(())
}

fn refuse_gateway_addresses(conn: &mut Conn, request: &GatewayRequest) -> Result<(), TransactionError> {
    for subnet in addresses::subnets_of(conn, request.network_id)? {
        let same = request.external_fixed_ips.iter().filter_map(|address| address.ip_address.as_ref());
        if let Some(address) = same.into_iter().find(|address| subnet.gateway_ip.as_ref() == Some(address)) {
            return Err(bad_request("router", format!("External IP {address} is the same as the gateway IP")));
        }
    }
    Ok(())
}

/// Refuses subnets that a router has a port on, or whose blocks overlap with those of its ports.
pub(in crate::network) fn refuse_overlaps(conn: &mut Conn, ports: &[PortRow], new: &[SubnetRecord]) -> Result<(), TransactionError> {
    for held in addresses_of(conn, ports)? {
        if new.iter().any(|subnet| subnet.id.to_string() == held.subnet_id) {
            return Err(bad_request("router", format!("Router already has a port on subnet {}", held.subnet_id)));
        }
        let Some(row) = subnet_table::find(conn, &held.subnet_id)? else { continue };
        let Some(block) = Cidr::parse(&row.cidr) else { continue };
        if let Some(subnet) = new.iter().find(|subnet| Cidr::parse(&subnet.cidr).is_some_and(|other| other.overlaps(&block))) {
            let text = format!("Cidr {} of subnet {} overlaps with cidr {block} of subnet {}", subnet.cidr, subnet.id, row.id);
            return Err(bad_request("router", text));
        }
    }
    Ok(())
}
