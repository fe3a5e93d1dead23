//! Routers. A router's interfaces and its gateway are ports that name it.

use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::ports::records::PortRow;
use crate::network::schema::{port_addresses, ports, routers};
use crate::network::statements::statements;
use crate::of::load_of;

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

statements!(routers, RouterRow: insert, list_by_project, find, hold_and_find, save_and_raise, delete);

/// Returns all ports of these routers, oldest first.
pub fn ports_of(conn: &mut Conn, of: Of<'_>) -> Result<Vec<PortRow>, DbError> {
    let query = ports::table.filter(ports::router_id.is_not_null()).order(ports::number.asc()).select(PortRow::as_select());
    const NONE: &String = &String::new();
    load_of!(conn, query, ports::router_id, of, |row| row.router_id.as_ref().unwrap_or(NONE))
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
