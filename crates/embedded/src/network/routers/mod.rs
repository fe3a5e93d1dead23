//! Routers and their extra routes. `gateways` connects them to external networks, and `interfaces` to subnets.

mod gateways;
mod interfaces;
pub(super) mod records;
pub(super) mod routes;

use cellshift_domain::reason;
use std::collections::BTreeMap;
use std::net::IpAddr;

use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError, Of};
use uuid::Uuid;

use super::attributes::{EXTRA_ROUTES, ROUTER, checked};
use super::change::Change;
use super::cidr::Cidr;
use super::ports::addresses;
use super::ports::records::{self as ports, AddressRow, PortRow};
use super::records::{Attributes, GatewayInfo, Route, RouterRecord, Scope, patched, take_owner};
use super::subnets::records as subnets;
use super::values::ROUTER_ROUTES_MAX;
use super::{EmbeddedNetwork, absent, in_use, quotas};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use gateways::GatewayRequest;
use records::{self as table, GATEWAY, INTERFACE, RouterRow};

impl EmbeddedNetwork {
    /// Returns the routers that the caller may see, oldest first.
    pub async fn routers(&self, scope: Scope) -> Result<Vec<RouterRecord>, ServiceError> {
        self.read(move |conn| {
            let rows = table::list(conn, (!scope.admin).then_some(&scope.project_id))?;
            Ok(records(conn, rows)?)
        })
        .await
    }

    /// Returns a router that the caller may see.
    pub async fn router(&self, scope: Scope, id: Uuid) -> Result<RouterRecord, ServiceError> {
        self.read(move |conn| visible(conn, &scope, id)).await
    }

    /// Makes a router, and connects it to an external network if the request names one.
    pub async fn create_router(&self, scope: Scope, mut attributes: Attributes) -> Result<RouterRecord, ServiceError> {
        let project_id = take_owner(&scope, &mut attributes)?;
        if attributes.contains_key("routes") {
            return Err(ServiceError::Invalid("Attribute 'routes' not allowed in POST".into()));
        }
        let mut attributes = checked(ROUTER, attributes, true)?;
        attributes.remove("availability_zone_hints");
        let gateway = gateways::take(&scope, "create_router", &mut attributes)?.flatten();
        let now = self.now();
        let blank = RouterRecord {
            id: self.new_id(),
            project_id,
            admin_state_up: true,
            revision_number: 1,
            created_at: now,
            updated_at: now,
            ..RouterRecord::default()
        };
        let router = patched(&blank, &attributes)?;
        let (limits, port) = (self.limits.clone(), self.new_id());
        self.make_turn(&router.project_id).await?;
        self.write(None, move |conn| {
            let granted = quotas::take(conn, &limits, &router.project_id)?;
            let mut row = row(&router)?;
            row.enable_snat = gateway.as_ref().is_none_or(GatewayRequest::enables_snat);
            table::insert(conn, granted, &row)?;
            gateways::set(conn, &scope, &row, gateway, port, now)?;
            visible(conn, &scope, router.id)
        })
        .await
    }

    /// Changes a router: its attributes, its gateway and its routes.
    pub async fn update_router(&self, scope: Scope, id: Uuid, change: impl Into<Change>) -> Result<RouterRecord, ServiceError> {
        let (now, port, change) = (self.now(), self.new_id(), change.into().checked(ROUTER)?);
        self.write(None, move |conn| {
            let mut held = hold(conn, &scope, id)?;
            let before = visible(conn, &scope, id)?;
            let mut attributes = change.on(&before.tags)?;
            let gateway = gateways::take(&scope, "update_router", &mut attributes)?;
            let mut after = patched(&before, &attributes)?;
            after.updated_at = now;
            if let Some(request) = gateway {
                held.enable_snat = request.as_ref().is_none_or(GatewayRequest::enables_snat);
                gateways::set(conn, &scope, &held, request, port, now)?;
            }
            check_routes(conn, id, &after.routes)?;
            table::save(conn, &RouterRow { enable_snat: held.enable_snat, ..row(&after)? })?;
            visible(conn, &scope, id)
        })
        .await
    }

    /// Adds routes to a router's own, or takes them away. Routes that are there or missing already change nothing.
    pub async fn change_routes(&self, scope: Scope, id: Uuid, attributes: Attributes, adds: bool) -> Result<RouterRecord, ServiceError> {
        let attributes = checked(EXTRA_ROUTES, attributes, false)?;
        let routes = attributes.get("routes").cloned();
        let routes =
            routes.ok_or_else(|| ServiceError::Invalid("Failed to parse request. Required attribute 'routes' not specified".into()))?;
        let body_routes: Vec<Route> = serde_json::from_value(routes).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
        let now = self.now();
        self.write(None, move |conn| {
            let held = hold(conn, &scope, id)?;
            let mut after = visible(conn, &scope, id)?;
            after.routes.retain(|route| !body_routes.contains(route));
            if adds {
                after.routes.extend(body_routes);
            }
            if after.routes.len() > ROUTER_ROUTES_MAX {
                let text = reason!("Unable to complete operation for {id}. The number of routes exceeds the maximum {ROUTER_ROUTES_MAX}.");
                return Err(ServiceError::Invalid(text).into());
            }
            check_routes(conn, id, &after.routes)?;
            after.updated_at = now;
            table::save(conn, &RouterRow { enable_snat: held.enable_snat, ..row(&after)? })?;
            visible(conn, &scope, id)
        })
        .await
    }

    /// Deletes a router with its gateway. Conflict while it has interfaces.
    pub async fn delete_router(&self, scope: Scope, id: Uuid) -> Result<(), ServiceError> {
        let (port, now) = (self.new_id(), self.now());
        self.write(None, move |conn| {
            let row = hold(conn, &scope, id)?;
            let interfaces = ports_of(conn, id)?.into_iter().filter(|port| port.device_owner == INTERFACE).map(|port| port.id);
            let interfaces: Vec<String> = interfaces.collect();
            if !interfaces.is_empty() {
                return Err(in_use(format!("Router {id} has ports still attached: {}", interfaces.join(", "))));
            }
            gateways::set(conn, &scope, &row, None, port, now)?;
            table::delete(conn, &id.to_string())?;
            Ok(())
        })
        .await
    }
}

/// Makes a 400 in the words of the resource.
pub(super) fn bad_request(resource: &str, why: String) -> TransactionError {
    ServiceError::Invalid(reason!("Bad {resource} request: {why}.")).into()
}

/// Returns a router that the caller may see.
pub(super) fn visible(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<RouterRecord, TransactionError> {
    let row = table::find(conn, &id.to_string())?.filter(|row| scope.may_see(&row.project_id, false));
    let row = row.ok_or_else(|| absent("Router", id))?;
    records(conn, vec![row])?.pop().ok_or_else(|| absent("Router", id))
}

/// Locks the row of a router that the caller may change, and returns it.
pub(super) fn hold(conn: &mut Conn, scope: &Scope, id: Uuid) -> Result<RouterRow, TransactionError> {
    let row = table::hold(conn, &id.to_string())?.filter(|row| scope.may_change(&row.project_id));
    row.ok_or_else(|| absent("Router", id))
}

/// Returns a router's ports: its interfaces and its gateway.
pub(super) fn ports_of(conn: &mut Conn, router: Uuid) -> Result<Vec<PortRow>, DbError> {
    table::ports_of(conn, Of::These(&[router.to_string()]))
}

/// Returns the addresses of these ports.
pub(super) fn addresses_of(conn: &mut Conn, ports: &[PortRow]) -> Result<Vec<AddressRow>, DbError> {
    let ids: Vec<String> = ports.iter().map(|port| port.id.clone()).collect();
    ports::addresses(conn, Of::These(&ids))
}

/// Refuses routes whose next hop is the router itself, or is on none of its subnets.
pub(super) fn check_routes(conn: &mut Conn, router: Uuid, routes: &[Route]) -> Result<(), TransactionError> {
    if routes.is_empty() {
        return Ok(());
    }
    let ports = ports_of(conn, router)?;
    let held = addresses_of(conn, &ports)?;
    let mut blocks = Vec::new();
    for address in &held {
        let subnet = subnets::find(conn, &address.subnet_id)?;
        blocks.extend(subnet.and_then(|subnet| Cidr::parse(&subnet.cidr)));
    }
    for route in routes {
        let connected = route.nexthop.parse::<IpAddr>().is_ok_and(|hop| blocks.iter().any(|block| block.contains(hop)));
        let why = if !connected {
            "the nexthop is not connected with router"
        } else if held.iter().any(|address| address.ip_address == route.nexthop) {
            "the nexthop is used by router"
        } else {
            continue;
        };
        return Err(ServiceError::Invalid(reason!("Invalid format for routes: {} via {}, {why}", route.destination, route.nexthop)).into());
    }
    Ok(())
}

fn records(conn: &mut Conn, rows: Vec<RouterRow>) -> Result<Vec<RouterRecord>, DbError> {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let ports = table::ports_of(conn, Of::These(&ids))?;
    let gateways: Vec<PortRow> = ports.into_iter().filter(|port| port.device_owner == GATEWAY).collect();
    let mut held: BTreeMap<String, Vec<AddressRow>> = BTreeMap::new();
    for address in addresses_of(conn, &gateways)? {
        held.entry(address.port_id.clone()).or_default().push(address);
    }
    let mut gateways: BTreeMap<String, PortRow> = gateways.into_iter().filter_map(|port| Some((port.router_id.clone()?, port))).collect();
    rows.into_iter()
        .map(|row| {
            let gateway = gateways.remove(&row.id);
            let addresses = gateway.as_ref().and_then(|port| held.remove(&port.id)).unwrap_or_default();
            record(row, gateway, addresses)
        })
        .collect()
}

fn record(row: RouterRow, gateway: Option<PortRow>, held: Vec<AddressRow>) -> Result<RouterRecord, DbError> {
    let info = |port: PortRow| {
        Ok::<_, DbError>(GatewayInfo {
            network_id: read_id("ports.network_id", &port.network_id)?,
            enable_snat: row.enable_snat,
            external_fixed_ips: addresses::fixed_ips(held)?,
        })
    };
    Ok(RouterRecord {
        id: read_id("routers.id", &row.id)?,
        external_gateway_info: gateway.map(info).transpose()?,
        name: row.name,
        project_id: row.project_id,
        description: row.description,
        admin_state_up: row.admin_state_up,
        routes: serde_json::from_str(&row.routes)?,
        tags: serde_json::from_str(&row.tags)?,
        revision_number: row.revision_number,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}

fn row(router: &RouterRecord) -> Result<RouterRow, DbError> {
    Ok(RouterRow {
        id: router.id.to_string(),
        name: router.name.clone(),
        project_id: router.project_id.clone(),
        description: router.description.clone(),
        admin_state_up: router.admin_state_up,
        enable_snat: router.external_gateway_info.as_ref().is_none_or(|gateway| gateway.enable_snat),
        routes: serde_json::to_string(&router.routes)?,
        tags: serde_json::to_string(&router.tags)?,
        revision_number: router.revision_number,
        created_at: router.created_at.naive_utc(),
        updated_at: router.updated_at.naive_utc(),
    })
}
