//! Interfaces of routers: their ports on internal networks. An interface made for a subnet has the subnet's gateway address.

use cellshift_domain::reason;
use std::net::IpAddr;

use cellshift_store::Conn;
use cellshift_store::columns::read_id;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::gateways::refuse_overlaps;
use super::records::{self as table, INTERFACE, RouterRow};
use super::{addresses_of, bad_request, hold, ports_of};
use crate::ServiceError;
use crate::network::attributes::{ROUTER_INTERFACE, checked};
use crate::network::cidr::{Cidr, number};
use crate::network::floating_ips::records as floating_ips;
use crate::network::limits::Limits;
use crate::network::ports::addresses;
use crate::network::ports::records::{self as ports, AddressRow, PortRow};
use crate::network::ports::{Blank, blank_row};
use crate::network::records::{Attributes, Route, RouterInterface, Scope, SubnetRecord};
use crate::network::subnets::records as subnet_table;
use crate::network::{EmbeddedNetwork, absent, bindings, in_use, quotas, subnets};
use crate::transaction::{TransactionError, Transactions};

/// The port or the subnet that a request names.
struct InterfaceRequest {
    port: Option<Uuid>,
    subnet: Option<Uuid>,
}

impl EmbeddedNetwork {
    /// Adds an interface to a router: an existing port, or a new one with the gateway address of a subnet.
    pub async fn add_interface(&self, scope: Scope, router: Uuid, attributes: Attributes) -> Result<RouterInterface, ServiceError> {
        let interface = interface(attributes)?;
        if interface.port.is_some() && interface.subnet.is_some() {
            return Err(ServiceError::Invalid("Bad router request: Cannot specify both subnet-id and port-id.".into()));
        }
        let owner = self.router(scope.clone(), router).await?.project_id;
        self.make_turn(&owner).await?;
        let new = NewInterface { id: self.new_id(), now: self.now(), limits: self.limits.clone() };
        self.write(None, move |conn| {
            // Ports before routers, in the order in which all transactions hold them.
            let port = interface.port.map(|id| usable_port(conn, &scope, id)).transpose()?;
            quotas::take_turn(conn, &owner)?;
            let held = hold(conn, &scope, router)?;
            let (port, subnets) = match (port, interface.subnet) {
                (Some(port), _) => attach(conn, &scope, &held, port, new.now)?,
                (None, Some(subnet)) => new.with_gateway_address(conn, &scope, &held, subnet)?,
                (None, None) => return Err(neither().into()),
            };
            table::save(conn, &RouterRow { updated_at: new.now.naive_utc(), ..held })?;
            Ok(interface_of(router, &port, &subnets)?)
        })
        .await
    }

    /// Removes an interface from a router, and its port. Conflict while a route or a floating IP needs it.
    pub async fn remove_interface(&self, scope: Scope, router: Uuid, attributes: Attributes) -> Result<RouterInterface, ServiceError> {
        let interface = interface(attributes)?;
        let now = self.now();
        self.write(None, move |conn| {
            let held = hold(conn, &scope, router)?;
            let interfaces = ports_of(conn, router)?.into_iter().filter(|port| port.device_owner == INTERFACE);
            let (port, addresses) = find(conn, router, &interface, interfaces.collect())?;
            let removed: Vec<AddressRow> = match (interface.port, interface.subnet) {
                (None, Some(subnet)) => addresses.iter().filter(|held| held.subnet_id == subnet.to_string()).cloned().collect(),
                _ => addresses.clone(),
            };
            let subnets = subnets_of(conn, &removed)?;
            for subnet in &subnets {
                refuse_needed(conn, &held, subnet)?;
            }
            if removed.len() < addresses.len() {
                ports::remove_addresses(conn, &removed)?;
            } else {
                ports::delete(conn, &port.id)?;
            }
            table::save(conn, &RouterRow { updated_at: now.naive_utc(), ..held })?;
            Ok(interface_of(router, &port, &subnets)?)
        })
        .await
    }
}

/// The values that a new interface needs.
struct NewInterface {
    id: Uuid,
    now: DateTime<Utc>,
    limits: Limits,
}

impl NewInterface {
    /// Makes a port with the subnet's gateway address. An IPv6 subnet joins the port that the router has for IPv6 on the same network.
    fn with_gateway_address(
        &self,
        conn: &mut Conn,
        scope: &Scope,
        router: &RouterRow,
        subnet: Uuid,
    ) -> Result<(PortRow, Vec<SubnetRecord>), TransactionError> {
        let subnet = subnets::find(conn, scope, subnet)?;
        subnet_table::hold(conn, &subnet.id.to_string())?;
        let Some(gateway) = subnet.gateway_ip.clone() else {
            return Err(bad_request("router", "Subnet for router interface must have a gateway IP".into()));
        };
        if !scope.may_change(&subnet.project_id) {
            let text = format!("Cannot add interface to router because subnet {} is not owned by project making the request", subnet.id);
            return Err(bad_request("router", text));
        }
        if !Cidr::parse(&subnet.cidr).zip(gateway.parse().ok()).is_some_and(|(block, address)| block.contains(address)) {
            return Err(bad_request("router", format!("IP address {gateway} is not a valid IP for the specified subnet.")));
        }
        let present = ports_of(conn, read_id("routers.id", &router.id)?)?;
        refuse_overlaps(conn, &present, std::slice::from_ref(&subnet))?;
        if let Some(holder) = ports::holder_of_address(conn, &subnet.id.to_string(), &gateway)? {
            log::debug!(port = holder.as_str(); "the gateway address of subnet {} is taken", subnet.id);
            return Err(in_use(format!("IP address {gateway} already allocated in subnet {}", subnet.id)));
        }
        let joined = if subnet.ip_version == 6 { port_for_ipv6(conn, &present, &subnet)? } else { None };
        let (port, place) = match joined {
            Some((port, addresses)) => (port, addresses.len() as i32),
            None => (self.insert(conn, router, &subnet)?, 0),
        };
        let address = AddressRow { subnet_id: subnet.id.to_string(), ip_address: gateway, port_id: port.id.clone(), place };
        ports::add_address(conn, &address)?;
        Ok((port, vec![subnet]))
    }

    fn insert(&self, conn: &mut Conn, router: &RouterRow, subnet: &SubnetRecord) -> Result<PortRow, TransactionError> {
        let granted = quotas::take(conn, &self.limits, &router.project_id)?;
        let mac_address = addresses::mac_address(conn, self.id)?;
        let project_id = router.project_id.clone();
        let blank = Blank { id: self.id, network: subnet.network_id, project_id, mac_address, now: self.now };
        let mut row = blank_row(blank, &[])?;
        give_to(&mut row, router);
        ports::insert(conn, granted, &row)?;
        Ok(row)
    }
}

fn interface(attributes: Attributes) -> Result<InterfaceRequest, ServiceError> {
    let attributes = checked(ROUTER_INTERFACE, attributes, false)?;
    let id = |name: &str| attributes.get(name).and_then(Value::as_str).and_then(|text| Uuid::parse_str(text).ok());
    let interface = InterfaceRequest { port: id("port_id"), subnet: id("subnet_id") };
    if interface.port.is_none() && interface.subnet.is_none() { Err(neither()) } else { Ok(interface) }
}

fn neither() -> ServiceError {
    ServiceError::Invalid("Bad router request: Either subnet_id or port_id must be specified.".into())
}

fn usable_port(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<PortRow, TransactionError> {
    let row = bindings::hold(conn, id)?;
    if !scope.may_change(&row.project_id) {
        return Err(absent("Port", id));
    }
    if !row.device_id.is_empty() || row.server_id.is_some() {
        return Err(in_use(format!(
            "Unable to complete operation on port {id} for network {}. Port already has an attached device {}.",
            row.network_id, row.device_id
        )));
    }
    Ok(row)
}

fn attach(
    conn: &mut Conn,
    scope: &Scope,
    router: &RouterRow,
    mut port: PortRow,
    now: DateTime<Utc>,
) -> Result<(PortRow, Vec<SubnetRecord>), TransactionError> {
    let addresses = addresses_of(conn, std::slice::from_ref(&port))?;
    if addresses.is_empty() {
        return Err(bad_request("router", "Router port must have at least one fixed IP".into()));
    }
    let subnets = subnets_of(conn, &addresses)?;
    if subnets.iter().filter(|subnet| subnet.ip_version == 4).count() > 1 {
        return Err(bad_request("router", "Cannot have multiple IPv4 subnets on router port".into()));
    }
    for address in &addresses {
        let Some(subnet) = subnets.iter().find(|subnet| subnet.id.to_string() == address.subnet_id) else { continue };
        if !scope.may_change(&subnet.project_id) && !in_pools(subnet, &address.ip_address) {
            let text = format!(
                "Cannot add interface to router because specified port {} has an IP address out of the allocation pool of subnet {}, which \
                 is not owned by the project making the request",
                port.id, subnet.id
            );
            return Err(bad_request("router", text));
        }
    }
    let present = ports_of(conn, read_id("routers.id", &router.id)?)?;
    refuse_overlaps(conn, &present, &subnets)?;
    give_to(&mut port, router);
    port.updated_at = now.naive_utc();
    ports::save(conn, &port)?;
    Ok((port, subnets))
}

fn give_to(port: &mut PortRow, router: &RouterRow) {
    port.device_id.clone_from(&router.id);
    port.device_owner = INTERFACE.to_owned();
    port.router_id = Some(router.id.clone());
}

fn in_pools(subnet: &SubnetRecord, address: &str) -> bool {
    let address = address.parse::<IpAddr>().map(number);
    address.is_ok_and(|address| subnets::pools(subnet).unwrap_or_default().iter().any(|(start, end)| (*start..=*end).contains(&address)))
}

fn port_for_ipv6(
    conn: &mut Conn,
    present: &[PortRow],
    subnet: &SubnetRecord,
) -> Result<Option<(PortRow, Vec<AddressRow>)>, TransactionError> {
    let on_network = present.iter().filter(|port| port.device_owner == INTERFACE && port.network_id == subnet.network_id.to_string());
    for port in on_network {
        let addresses = addresses_of(conn, std::slice::from_ref(port))?;
        if addresses.iter().any(|held| held.ip_address.contains(':')) {
            return Ok(Some((port.clone(), addresses)));
        }
    }
    Ok(None)
}

/// Finds the interface with the named port or subnet among a router's interfaces.
fn find(
    conn: &mut Conn,
    router: Uuid,
    interface: &InterfaceRequest,
    interfaces: Vec<PortRow>,
) -> Result<(PortRow, Vec<AddressRow>), TransactionError> {
    for port in interfaces {
        if interface.port.is_some_and(|id| id.to_string() != port.id) {
            continue;
        }
        let addresses = addresses_of(conn, std::slice::from_ref(&port))?;
        let on_subnet = interface.subnet.is_none_or(|subnet| addresses.iter().any(|held| held.subnet_id == subnet.to_string()));
        match (on_subnet, interface.port, interface.subnet) {
            (true, ..) => return Ok((port, addresses)),
            (false, Some(port), Some(subnet)) => {
                let text = reason!("Subnet on port {port} does not match the requested subnet {subnet}.");
                return Err(ServiceError::Invalid(text).into());
            }
            _ => {}
        }
    }
    let text = match (interface.port, interface.subnet) {
        (Some(port), _) => reason!("Router {router} does not have an interface with id {port}"),
        (None, subnet) => reason!("Router {router} has no interface on subnet {}", subnet.unwrap_or_default()),
    };
    Err(ServiceError::NotFound(text).into())
}

/// Refuses to take an interface away that a route goes through, or that floating IPs need.
fn refuse_needed(conn: &mut Conn, router: &RouterRow, subnet: &SubnetRecord) -> Result<(), TransactionError> {
    let routes: Vec<Route> = serde_json::from_str(&router.routes).map_err(cellshift_store::DbError::from)?;
    let block = Cidr::parse(&subnet.cidr);
    let through = |route: &Route| route.nexthop.parse::<IpAddr>().is_ok_and(|hop| block.is_some_and(|block| block.contains(hop)));
    if routes.iter().any(through) {
        let text = format!(
            "Router interface for subnet {} on router {} cannot be deleted, as it is required by one or more routes.",
            subnet.id, router.id
        );
        return Err(in_use(text));
    }
    let inside = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| block.is_some_and(|block| block.contains(address)));
    for floating in floating_ips::of_router(conn, &router.id)? {
        let (Some(port), Some(address)) = (&floating.port_id, &floating.fixed_ip_address) else { continue };
        if inside(address) && ports::holder_of_address(conn, &subnet.id.to_string(), address)?.as_ref() == Some(port) {
            let text = format!(
                "Router interface for subnet {} on router {} cannot be deleted, as it is required by one or more floating IPs.",
                subnet.id, router.id
            );
            return Err(in_use(text));
        }
    }
    Ok(())
}

fn subnets_of(conn: &mut Conn, addresses: &[AddressRow]) -> Result<Vec<SubnetRecord>, TransactionError> {
    let mut records = Vec::new();
    for address in addresses {
        if let Some(row) = subnet_table::find(conn, &address.subnet_id)? {
            records.push(subnets::record(row)?);
        }
    }
    Ok(records)
}

fn interface_of(router: Uuid, port: &PortRow, subnets: &[SubnetRecord]) -> Result<RouterInterface, cellshift_store::DbError> {
    let subnet_ids: Vec<Uuid> = subnets.iter().map(|subnet| subnet.id).collect();
    Ok(RouterInterface {
        id: router,
        project_id: port.project_id.clone(),
        port_id: read_id("ports.id", &port.id)?,
        network_id: read_id("ports.network_id", &port.network_id)?,
        subnet_id: subnet_ids.last().copied().unwrap_or_default(),
        subnet_ids,
    })
}
