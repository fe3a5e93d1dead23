//! Routers. A router's interfaces and its gateway are ports that name it.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::ports::records::PortRow;
use crate::network::schema::{port_addresses, ports, routers};

/// The device owner of a router's port on an internal network.
pub const INTERFACE: &str = "network:router_interface";
/// The device owner of a router's port on an external network.
pub const GATEWAY: &str = "network:router_gateway";

/// A router without its ports.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = routers)]
pub struct RouterRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub admin_state_up: bool,
    pub enable_snat: bool,
    pub routes: String,
    pub tags: String,
    pub revision_number: i32,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// Adds a router.
pub fn insert(conn: &mut Conn, _: QuotaGrant<RouterRow>, row: &RouterRow) -> Result<(), DbError> {
    diesel::insert_into(routers::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns the routers of a project, or all routers, oldest first.
pub fn list(conn: &mut Conn, project: Option<&str>) -> Result<Vec<RouterRow>, DbError> {
    let query = routers::table.order(routers::number.asc()).select(RouterRow::as_select());
    match project {
        None => Ok(query.load(conn)?),
        Some(project) => Ok(query.filter(routers::project_id.eq(project)).load(conn)?),
    }
}

/// Returns the router with this id.
pub fn find(conn: &mut Conn, id: &str) -> Result<Option<RouterRow>, DbError> {
    Ok(routers::table.filter(routers::id.eq(id)).select(RouterRow::as_select()).first(conn).optional()?)
}

/// Locks the router's row until the transaction ends, and returns it. Each change of a router's ports or of the floating IPs behind it starts
/// here, so that on PostgreSQL an interface is not removed while a floating IP begins to need it.
pub fn hold(conn: &mut Conn, id: &str) -> Result<Option<RouterRow>, DbError> {
    diesel::update(routers::table.filter(routers::id.eq(id))).set(routers::updated_at.eq(routers::updated_at)).execute(conn)?;
    find(conn, id)
}

/// Writes all columns and raises the revision.
pub fn save(conn: &mut Conn, row: &RouterRow) -> Result<(), DbError> {
    diesel::update(routers::table.filter(routers::id.eq(&row.id))).set(row).execute(conn)?;
    diesel::update(routers::table.filter(routers::id.eq(&row.id)))
        .set(routers::revision_number.eq(routers::revision_number + 1))
        .execute(conn)?;
    Ok(())
}

/// Removes a router, which must have no ports.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(routers::table.filter(routers::id.eq(id))).execute(conn)?;
    Ok(())
}

/// Returns all ports of these routers, oldest first.
pub fn ports_of(conn: &mut Conn, of: Of<'_>) -> Result<Vec<PortRow>, DbError> {
    let query = ports::table.filter(ports::router_id.is_not_null()).order(ports::number.asc()).select(PortRow::as_select());
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(ports::router_id.eq_any(ids)).load(conn)?,
    };
    const NONE: &String = &String::new();
    Ok(of.keep(rows, |row| row.router_id.as_ref().unwrap_or(NONE)))
}

/// Returns the ports of routers that have an address in a subnet, each with that address, oldest first.
pub fn interfaces_on(conn: &mut Conn, subnet: &str) -> Result<Vec<(PortRow, String)>, DbError> {
    let of_subnet = port_addresses::table.inner_join(ports::table.on(ports::id.eq(port_addresses::port_id)));
    let of_routers = of_subnet.filter(port_addresses::subnet_id.eq(subnet)).filter(ports::router_id.is_not_null());
    Ok(of_routers.order(ports::number.asc()).select((PortRow::as_select(), port_addresses::ip_address)).load(conn)?)
}

/// Counts the gateways of routers on a network.
pub fn gateways_on(conn: &mut Conn, network: &str) -> Result<i64, DbError> {
    let on_network = ports::table.filter(ports::network_id.eq(network)).filter(ports::router_id.is_not_null());
    Ok(on_network.filter(ports::device_owner.eq(GATEWAY)).count().get_result(conn)?)
}
