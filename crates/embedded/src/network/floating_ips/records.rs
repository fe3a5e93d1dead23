//! Floating IPs: addresses on external networks that lead to fixed addresses of ports. The address itself is held by a port of its own.

use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::floating_ips;
use crate::network::statements::statements;
use crate::of::load_of;

/// The device owner of the port that holds a floating IP's address.
pub const FLOATING: &str = "network:floatingip";

/// A floating IP. `port_id`, `fixed_ip_address` and `router_id` are set together.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = floating_ips, treat_none_as_null = true)]
pub struct FloatingIpRow {
    pub id: String,
    pub project_id: String,
    pub description: String,
    pub floating_network_id: String,
    pub floating_ip_address: String,
    /// The port that holds the address.
    pub floating_port_id: String,
    pub port_id: Option<String>,
    pub fixed_ip_address: Option<String>,
    pub router_id: Option<String>,
    pub tags: String,
    pub revision_number: i32,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

statements!(floating_ips, FloatingIpRow: insert, list_by_project, find, hold_and_find, save_and_raise, delete);

/// Returns the floating IPs of these ports, oldest first.
pub fn of_ports(conn: &mut Conn, of: Of<'_>) -> Result<Vec<FloatingIpRow>, DbError> {
    const NONE: &String = &String::new();
    let query = floating_ips::table.filter(floating_ips::port_id.is_not_null());
    let query = query.order(floating_ips::number.asc()).select(FloatingIpRow::as_select());
    load_of!(conn, query, floating_ips::port_id, of, |row| row.port_id.as_ref().unwrap_or(NONE))
}

/// Returns the floating IPs behind a router.
pub fn of_router(conn: &mut Conn, router: &str) -> Result<Vec<FloatingIpRow>, DbError> {
    Ok(floating_ips::table.filter(floating_ips::router_id.eq(router)).select(FloatingIpRow::as_select()).load(conn)?)
}

/// Returns the floating IPs of a network that lead to no port.
pub fn unused_on(conn: &mut Conn, network: &str) -> Result<Vec<FloatingIpRow>, DbError> {
    let on_network = floating_ips::table.filter(floating_ips::floating_network_id.eq(network));
    Ok(on_network.filter(floating_ips::port_id.is_null()).select(FloatingIpRow::as_select()).load(conn)?)
}

/// Frees the floating IPs of a port that is about to go.
pub fn leave_port(conn: &mut Conn, port: &str) -> Result<(), DbError> {
    let nothing = None::<String>;
    diesel::update(floating_ips::table.filter(floating_ips::port_id.eq(port)))
        .set((
            floating_ips::port_id.eq(&nothing),
            floating_ips::fixed_ip_address.eq(&nothing),
            floating_ips::router_id.eq(&nothing),
            floating_ips::revision_number.eq(floating_ips::revision_number + 1),
        ))
        .execute(conn)?;
    Ok(())
}
