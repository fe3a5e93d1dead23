//! Floating IPs. A floating IP leads to a fixed address of a port through a router that joins the port's subnet and the external network.

pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;
use std::net::IpAddr;

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_domain::reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{FLOATING_IP, checked};
use super::change::Change;
use super::networks::records as network_table;
use super::ports::records as ports;
use super::ports::{Blank, blank_row};
use super::ports::{addresses, assemble};
use super::records::{AddressRequest, Attributes, FloatingIpRecord, PortRecord, Scope, patched, take_id, take_owner};
use super::routers::records::{self as router_table, GATEWAY, INTERFACE};
use super::routers::{bad_request, ports_of};
use super::subnets::records as subnets;
use super::{EmbeddedNetwork, absent, bindings, in_use, networks, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::{self as table, FLOATING, FloatingIpRow};

const RESOURCE: &str = "floatingip";

/// The port, the fixed address and the router that a floating IP leads to.
struct Target {
    port: Uuid,
    address: String,
    router: Uuid,
}

/// A request's wish for a floating IP's port.
enum Wish {
    /// Leaves the port as it is.
    Keep,
    /// Leads to no port.
    Free,
    /// Leads to this port, by the named fixed address or its only one.
    Lead(Uuid, Option<String>),
}

impl EmbeddedNetwork {
    /// Returns the floating IPs that the caller may see, oldest first.
    pub async fn floating_ips(&self, scope: Scope) -> Result<Vec<FloatingIpRecord>, ServiceError> {
        self.read(move |conn| {
            let rows = table::list(conn, (!scope.admin).then_some(&scope.project_id))?;
            Ok(records(conn, rows)?)
        })
        .await
    }

    /// Returns a floating IP that the caller may see.
    pub async fn floating_ip(&self, scope: Scope, id: Uuid) -> Result<FloatingIpRecord, ServiceError> {
        self.read(move |conn| visible(conn, &scope, id)).await
    }

    /// Makes a floating IP on an external network, and leads it to a port if the request names one. Only administrators and managers
    /// choose its address.
    pub async fn create_floating_ip(&self, scope: Scope, mut attributes: Attributes) -> Result<FloatingIpRecord, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        let network = take_id(&mut attributes, "floating_network_id")?;
        let mut attributes = checked(FLOATING_IP, attributes, true)?;
        let wish = take_wish(&mut attributes, None)?;
        let address = text(attributes.remove("floating_ip_address"));
        if address.is_some() && !(scope.admin || scope.manager) {
            return Err(ServiceError::Forbidden("rule:create_floatingip:floating_ip_address is disallowed by policy".into()));
        }
        let request = AddressRequest { subnet_id: id_in(attributes.remove("subnet_id")), ip_address: address };
        attributes.remove("qos_policy_id");
        let (now, port) = (self.now(), self.new_id());
        let blank = self.blank_floating_ip(project_id, network, now);
        let mut record = patched(&blank, &attributes)?;
        let limits = self.limits.clone();
        self.make_turn(&record.project_id).await?;
        self.write(None, move |conn| {
            check_external(conn, &scope, network)?;
            let target = match &wish {
                Wish::Lead(port, fixed) => Some(target(conn, &scope, &record, *port, fixed.as_deref())?),
                _ => None,
            };
            let granted = quotas::take(conn, &limits, &record.project_id)?;
            record.floating_ip_address = hold_address(conn, &scope, &record, request, port, now)?;
            if let Some(target) = target {
                lead(conn, &mut record, target)?;
            }
            table::insert(conn, granted, &row(&record, port.to_string())?)?;
            visible(conn, &scope, record.id)
        })
        .await
    }

    /// Changes a floating IP: its attributes, and the port that it leads to.
    pub async fn update_floating_ip(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<FloatingIpRecord, ServiceError> {
        let (now, change) = (self.now(), change.into().checked(FLOATING_IP)?);
        self.write(None, move |conn| {
            let before = visible(conn, &scope, id)?;
            let mut attributes = change.on(&before.tags)?;
            let wish = take_wish(&mut attributes, before.port_id)?;
            attributes.remove("qos_policy_id");
            let target = match &wish {
                Wish::Lead(port, fixed) => Some(target(conn, &scope, &before, *port, fixed.as_deref())?),
                _ => None,
            };
            // Locked last, and read again: the port may have gone since.
            let held = table::hold(conn, &id.to_string())?.ok_or_else(|| absent("Floating IP", id))?;
            let mut after = patched(&visible(conn, &scope, id)?, &attributes)?;
            match (target, wish) {
                (Some(target), _) => lead(conn, &mut after, target)?,
                (None, Wish::Free) => (after.port_id, after.fixed_ip_address, after.router_id) = (None, None, None),
                (None, _) => {}
            }
            after.updated_at = now;
            table::save(conn, &row(&after, held.floating_port_id)?)?;
            visible(conn, &scope, id)
        })
        .await
    }

    /// Deletes a floating IP and gives its address back.
    pub async fn delete_floating_ip(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        self.write(None, move |conn| {
            visible(conn, &scope, id)?;
            let held = table::hold(conn, &id.to_string())?.ok_or_else(|| absent("Floating IP", id))?;
            remove(conn, &held)?;
            Ok(())
        })
        .await
    }

    fn blank_floating_ip(&self, project_id: String, network: Uuid, now: DateTime<Utc>) -> FloatingIpRecord {
        FloatingIpRecord {
            id: self.new_id(),
            project_id,
            floating_network_id: network,
            revision_number: 1,
            created_at: now,
            updated_at: now,
            ..FloatingIpRecord::default()
        }
    }
}

/// Deletes a floating IP with the port that holds its address.
pub(super) fn remove(conn: &mut Conn, row: &FloatingIpRow) -> Result<(), DbError> {
    table::delete(conn, &row.id)?;
    ports::delete(conn, &row.floating_port_id)
}

/// Refuses other fixed addresses for a port if a floating IP leads to one that it would lose.
pub(super) fn refuse_lost_address(conn: &mut Conn, port: Uuid, requests: &[AddressRequest]) -> Result<(), TransactionError> {
    let stays = |address: &Option<String>| requests.iter().any(|request| request.ip_address == *address);
    if table::of_ports(conn, Of::These(&[port.to_string()]))?.iter().any(|row| !stays(&row.fixed_ip_address)) {
        let why =
            format!("Cannot update the fixed_ips of the port {port}, because its original fixed_ip has been associated to a floating ip");
        return Err(bad_request("port", why));
    }
    Ok(())
}

fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<FloatingIpRecord, TransactionError> {
    let row = table::find(conn, &id.to_string())?.filter(|row| scope.may_see(&row.project_id, false));
    let row = row.ok_or_else(|| absent("Floating IP", id))?;
    records(conn, vec![row])?.pop().ok_or_else(|| absent("Floating IP", id))
}

/// Takes the wish for a port out of a request's attributes. `present` is the port that the floating IP leads to.
fn take_wish(attributes: &mut Attributes, present: Option<Uuid>) -> Result<Wish, ServiceError> {
    let (port, fixed) = (attributes.remove("port_id"), text(attributes.remove("fixed_ip_address")));
    let target = match port {
        Some(port) => id_in(Some(port)),
        None if fixed.is_none() => return Ok(Wish::Keep),
        None => present,
    };
    match (target, fixed) {
        (Some(port), fixed) => Ok(Wish::Lead(port, fixed)),
        (None, None) => Ok(Wish::Free),
        (None, Some(_)) => {
            Err(ServiceError::Invalid("Bad floatingip request: fixed_ip_address cannot be specified without a port_id.".into()))
        }
    }
}

fn text(value: Option<Value>) -> Option<String> {
    value.as_ref().and_then(Value::as_str).map(str::to_owned)
}

fn id_in(value: Option<Value>) -> Option<Uuid> {
    text(value).and_then(|text| Uuid::parse_str(&text).ok())
}

/// Makes the port that holds a floating IP's address, and returns the address.
fn hold_address(
    conn: &mut Conn,
    scope: &Scope,
    floating: &FloatingIpRecord,
    request: AddressRequest,
    id: Uuid,
    now: DateTime<Utc>,
) -> Result<String, TransactionError> {
    let network = floating.floating_network_id;
    network_table::hold(conn, &network.to_string())?;
    check_external(conn, scope, network)?;
    let of_network = subnets::list(conn, Of::These(&[network.to_string()]))?;
    if !of_network.iter().any(|subnet| subnet.ip_version == 4) {
        return Err(bad_request(RESOURCE, format!("Network {network} does not contain any IPv4 subnet")));
    }
    let mac_address = addresses::mac_address(conn, id)?;
    let mut port = blank_row(Blank { id, network, project_id: String::new(), mac_address, now }, &[])?;
    port.device_id = floating.id.to_string();
    port.device_owner = FLOATING.to_owned();
    ports::insert(conn, QuotaGrant::without_check("the port that holds a floating IP belongs to no project"), &port)?;
    let is_named = request.subnet_id.is_some() || request.ip_address.is_some();
    let chosen = addresses::assign(conn, id, network, is_named.then_some(std::slice::from_ref(&request)))?;
    let address = chosen.into_iter().map(|fixed| fixed.ip_address).find(|address| is_v4(address));
    address.ok_or_else(|| ServiceError::Invalid(reason!("Unable to find any IP address on external network {network}.")).into())
}

/// Refuses a network that has no floating IPs.
fn check_external(conn: &mut Conn, scope: &Scope, network: Uuid) -> Result<(), TransactionError> {
    match networks::visible(conn, scope, network)?.external {
        true => Ok(()),
        false => Err(bad_request(RESOURCE, format!("Network {network} is not a valid external network"))),
    }
}

fn is_v4(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4())
}

/// Finds the fixed address and the router by which a floating IP may lead to a port, and locks the port and the router.
fn target(
    conn: &mut Conn,
    scope: &Scope,
    floating: &FloatingIpRecord,
    port: Uuid,
    fixed: Option<&str>,
) -> Result<Target, TransactionError> {
    bindings::hold(conn, port)?;
    let record = assemble::port(conn, port)?.port;
    if !scope.may_see(&record.project_id, false) {
        return Err(absent("Port", port));
    }
    let refused = |why: String| Err(bad_request(RESOURCE, why));
    if record.project_id != floating.project_id && !scope.admin {
        return refused(format!(
            "Cannot process floating IP association with Port {port}, since that port is owned by a different project"
        ));
    }
    if record.device_owner.starts_with("network:") {
        return refused(format!("Port {port} is unable to be assigned a floating IP"));
    }
    let ipv4: Vec<_> = record.fixed_ips.iter().filter(|held| is_v4(&held.ip_address)).collect();
    let chosen = match (fixed, ipv4.as_slice()) {
        (Some(fixed), _) if !is_v4(fixed) => {
            return refused(format!("Cannot process floating IP association with {fixed}, since that is not an IPv4 address"));
        }
        (Some(fixed), held) => match held.iter().find(|held| held.ip_address == fixed) {
            Some(held) => *held,
            None => return refused(format!("Port {port} does not have fixed ip {fixed}")),
        },
        (None, []) => return refused(format!("Cannot add floating IP to port {port} that has no fixed IPv4 addresses")),
        (None, [one]) => *one,
        (None, _) => {
            return refused(format!(
                "Port {port} has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP"
            ));
        }
    };
    let unreachable = || {
        ServiceError::NotFound(reason!(
            "External network {} is not reachable from subnet {}.  Therefore, cannot associate Port {port} with a Floating IP.",
            floating.floating_network_id,
            chosen.subnet_id
        ))
    };
    let router = router_between(conn, chosen.subnet_id, floating.floating_network_id)?.ok_or_else(unreachable)?;
    // Locked, then looked at again: an interface or a gateway may have gone before the lock.
    router_table::hold(conn, &router.to_string())?;
    if router_between(conn, chosen.subnet_id, floating.floating_network_id)? != Some(router) {
        return Err(unreachable().into());
    }
    Ok(Target { port, address: chosen.ip_address.clone(), router })
}

/// Returns the router with an interface on the subnet and a gateway on the external network. Of several, the subnet's gateway is preferred.
fn router_between(conn: &mut Conn, subnet: Uuid, external: Uuid) -> Result<Option<Uuid>, DbError> {
    let gateway = subnets::find(conn, &subnet.to_string())?.and_then(|subnet| subnet.gateway_ip);
    let mut between = None;
    for (port, address) in router_table::interfaces_on(conn, &subnet.to_string())? {
        let Some(router) = port.router_id.filter(|_| port.device_owner == INTERFACE) else { continue };
        let router = read_id("ports.router_id", &router)?;
        let reaches = |port: &&ports::PortRow| port.device_owner == GATEWAY && port.network_id == external.to_string();
        if ports_of(conn, router)?.iter().any(|port| reaches(&port)) {
            if Some(&address) == gateway.as_ref() {
                return Ok(Some(router));
            }
            between = between.or(Some(router));
        }
    }
    Ok(between)
}

/// Leads a floating IP to its target. Conflict if another floating IP of the network leads there. The caller has locked the port.
fn lead(conn: &mut Conn, floating: &mut FloatingIpRecord, target: Target) -> Result<(), TransactionError> {
    let network = floating.floating_network_id;
    let same = |row: &FloatingIpRow| {
        row.id != floating.id.to_string()
            && row.floating_network_id == network.to_string()
            && row.fixed_ip_address.as_ref() == Some(&target.address)
    };
    if table::of_ports(conn, Of::These(&[target.port.to_string()]))?.iter().any(same) {
        return Err(in_use(format!(
            "Cannot associate floating IP {} ({}) with port {} using fixed IP {}, as that fixed IP already has a floating IP on external \
             network {network}.",
            floating.floating_ip_address, floating.id, target.port, target.address
        )));
    }
    floating.port_id = Some(target.port);
    floating.fixed_ip_address = Some(target.address);
    floating.router_id = Some(target.router);
    Ok(())
}

fn records(conn: &mut Conn, rows: Vec<FloatingIpRow>) -> Result<Vec<FloatingIpRecord>, DbError> {
    let ids: Vec<String> = rows.iter().filter_map(|row| row.port_id.clone()).collect();
    let of_rows = ports::these(conn, &ids)?;
    let mut ports: BTreeMap<String, PortRecord> =
        assemble::records(conn, of_rows)?.into_iter().map(|record| (record.port.id.to_string(), record)).collect();
    rows.into_iter()
        .map(|row| {
            let port = row.port_id.as_ref().and_then(|id| ports.get_mut(id)).map(|record| record.port.clone());
            record(row, port)
        })
        .collect()
}

fn record(row: FloatingIpRow, port: Option<super::Port>) -> Result<FloatingIpRecord, DbError> {
    let id = |column: &str, text: &Option<String>| text.as_deref().map(|text| read_id(column, text)).transpose();
    Ok(FloatingIpRecord {
        id: read_id("floating_ips.id", &row.id)?,
        floating_network_id: read_id("floating_ips.floating_network_id", &row.floating_network_id)?,
        port_id: id("floating_ips.port_id", &row.port_id)?,
        router_id: id("floating_ips.router_id", &row.router_id)?,
        project_id: row.project_id,
        description: row.description,
        floating_ip_address: row.floating_ip_address,
        fixed_ip_address: row.fixed_ip_address,
        tags: serde_json::from_str(&row.tags)?,
        revision_number: row.revision_number,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
        port_details: port,
    })
}

fn row(floating: &FloatingIpRecord, floating_port_id: String) -> Result<FloatingIpRow, DbError> {
    Ok(FloatingIpRow {
        id: floating.id.to_string(),
        project_id: floating.project_id.clone(),
        description: floating.description.clone(),
        floating_network_id: floating.floating_network_id.to_string(),
        floating_ip_address: floating.floating_ip_address.clone(),
        floating_port_id,
        port_id: floating.port_id.map(|id| id.to_string()),
        fixed_ip_address: floating.fixed_ip_address.clone(),
        router_id: floating.router_id.map(|id| id.to_string()),
        tags: serde_json::to_string(&floating.tags)?,
        revision_number: floating.revision_number,
        created_at: floating.created_at.naive_utc(),
        updated_at: floating.updated_at.naive_utc(),
    })
}
