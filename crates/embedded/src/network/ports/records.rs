//! Ports and their addresses.

use cellshift_store::columns::Multi;
use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::floating_ips::records as floating_ips;
use crate::network::schema::{networks, port_addresses, port_bindings, ports};
use crate::network::statements::statements;
use crate::of::load_of;

/// A port without addresses and bindings.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = ports, treat_none_as_null = true)]
pub struct PortRow {
    pub id: String,
    pub network_id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub mac_address: String,
    pub admin_state_up: bool,
    pub device_id: String,
    pub device_owner: String,
    pub vnic_type: String,
    pub profile: String,
    pub security_groups: String,
    pub allowed_address_pairs: String,
    pub extra_dhcp_opts: String,
    pub port_security_enabled: bool,
    pub qos_policy_id: Option<String>,
    pub tags: String,
    pub revision_number: i32,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
    /// The server that took the port, even if its owner writes something else into `device_id`.
    pub server_id: Option<String>,
    /// The router that has the port as an interface or as its gateway.
    pub router_id: Option<String>,
}

/// An address of a port. `place` orders the addresses of one port.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = port_addresses)]
pub struct AddressRow {
    pub subnet_id: String,
    pub ip_address: String,
    pub port_id: String,
    pub place: i32,
}

/// Selects ports. The default selects all.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    pub device_id: Option<String>,
    pub network_id: Option<String>,
    pub project_id: Option<String>,
    pub name: Option<String>,
    pub id: Option<String>,
}

statements!(ports, PortRow: insert, find, save);

/// Returns the selected ports, oldest first.
pub fn list(conn: &mut Conn, filter: &Filter) -> Result<Vec<PortRow>, DbError> {
    let mut query = ports::table.order(ports::number.asc()).select(PortRow::as_select()).into_boxed();
    if let Some(device) = &filter.device_id {
        query = query.filter(ports::device_id.eq(device));
    }
    if let Some(network) = &filter.network_id {
        query = query.filter(ports::network_id.eq(network));
    }
    if let Some(project) = &filter.project_id {
        query = query.filter(ports::project_id.eq(project));
    }
    if let Some(name) = &filter.name {
        query = query.filter(ports::name.eq(name));
    }
    if let Some(id) = &filter.id {
        query = query.filter(ports::id.eq(id));
    }
    Ok(query.load(conn)?)
}

/// The maximum number of keys in one statement.
const CHUNK: usize = 500;

/// Reads the rows of these keys, with as few statements as may be.
fn in_chunks<R>(keys: &[String], mut load: impl FnMut(&[String]) -> QueryResult<Vec<R>>) -> Result<Vec<R>, DbError> {
    let mut rows = Vec::new();
    for chunk in keys.chunks(CHUNK) {
        rows.extend(load(chunk)?);
    }
    Ok(rows)
}

/// Returns the ports that these servers took. A server's ports come oldest first.
pub fn of_servers(conn: &mut Conn, servers: &[String]) -> Result<Vec<PortRow>, DbError> {
    in_chunks(servers, |chunk| {
        ports::table.filter(ports::server_id.eq_any(chunk)).order(ports::number.asc()).select(PortRow::as_select()).load(conn)
    })
}

/// Returns the ports that a server took or that have a binding, oldest first.
pub fn in_use(conn: &mut Conn) -> Result<Vec<PortRow>, DbError> {
    let bound = port_bindings::table.select(port_bindings::port_id);
    Ok(ports::table
        .filter(ports::server_id.is_not_null().or(ports::id.eq_any(bound)))
        .order(ports::number.asc())
        .select(PortRow::as_select())
        .load(conn)?)
}

/// Returns the ports with these ids, oldest first.
pub fn these(conn: &mut Conn, ids: &[String]) -> Result<Vec<PortRow>, DbError> {
    in_chunks(ids, |chunk| ports::table.filter(ports::id.eq_any(chunk)).order(ports::number.asc()).select(PortRow::as_select()).load(conn))
}

/// Returns those of these ports that a server took, each with its server.
pub fn holders(conn: &mut Conn, ids: &[String]) -> Result<Vec<(String, String)>, DbError> {
    in_chunks(ids, |chunk| {
        let held = ports::table.filter(ports::id.eq_any(chunk)).filter(ports::server_id.is_not_null());
        held.select((ports::id, ports::server_id.assume_not_null())).load(conn)
    })
}

/// Raises the port's revision, which on PostgreSQL locks its row until the transaction ends, and returns the port. Each change of a port or
/// its bindings starts here.
pub fn hold(conn: &mut Conn, id: &str) -> Result<Option<PortRow>, DbError> {
    let raised = diesel::update(ports::table.filter(ports::id.eq(id))).set(ports::revision_number.eq(ports::revision_number + 1));
    Ok(raised.returning(<PortRow as Selectable<Multi>>::construct_selection()).get_result(conn).optional()?)
}

/// Removes a port with its addresses and bindings, and frees its floating IPs.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    floating_ips::leave_port(conn, id)?;
    diesel::delete(port_addresses::table.filter(port_addresses::port_id.eq(id))).execute(conn)?;
    diesel::delete(port_bindings::table.filter(port_bindings::port_id.eq(id))).execute(conn)?;
    diesel::delete(ports::table.filter(ports::id.eq(id))).execute(conn)?;
    Ok(())
}

/// True if a port has this MAC address.
pub fn mac_is_used(conn: &mut Conn, mac: &str) -> Result<bool, DbError> {
    let ports: i64 = ports::table.filter(ports::mac_address.eq(mac)).count().get_result(conn)?;
    Ok(ports > 0)
}

/// Counts the ports of a network.
pub fn count_on_network(conn: &mut Conn, network: &str) -> Result<i64, DbError> {
    Ok(ports::table.filter(ports::network_id.eq(network)).count().get_result(conn)?)
}

/// Counts the ports that name a security group.
pub fn count_with_security_group(conn: &mut Conn, group: &str) -> Result<i64, DbError> {
    Ok(ports::table.filter(ports::security_groups.like(format!("%{group}%"))).count().get_result(conn)?)
}

/// Returns at most `limit` ports of servers on a network that have no QoS policy of their own, oldest first.
pub fn of_servers_under(conn: &mut Conn, network: &str, limit: i64) -> Result<Vec<PortRow>, DbError> {
    let of_servers = ports::table.filter(ports::network_id.eq(network)).filter(ports::server_id.is_not_null());
    let without_own = of_servers.filter(ports::qos_policy_id.is_null());
    Ok(without_own.order(ports::number.asc()).limit(limit).select(PortRow::as_select()).load(conn)?)
}

/// Counts the ports that name a QoS policy themselves.
pub fn count_with_qos_policy(conn: &mut Conn, policy: &str) -> Result<i64, DbError> {
    Ok(ports::table.filter(ports::qos_policy_id.eq(policy)).count().get_result(conn)?)
}

/// Counts the ports of servers to which a QoS policy applies: their own, or their network's if they have none.
pub fn count_of_servers_with_qos_policy(conn: &mut Conn, policy: &str) -> Result<i64, DbError> {
    let of_networks: Vec<String> = networks::table.filter(networks::qos_policy_id.eq(policy)).select(networks::id).load(conn)?;
    let of_servers = || ports::table.filter(ports::server_id.is_not_null().or(ports::device_owner.like("compute:%")));
    let own: i64 = of_servers().filter(ports::qos_policy_id.eq(policy)).count().get_result(conn)?;
    let without_own = of_servers().filter(ports::qos_policy_id.is_null());
    let inherited: i64 = without_own.filter(ports::network_id.eq_any(of_networks)).count().get_result(conn)?;
    Ok(own + inherited)
}

/// Returns addresses of ports, in the order of each port.
pub fn addresses(conn: &mut Conn, of: Of<'_>) -> Result<Vec<AddressRow>, DbError> {
    let query = port_addresses::table.order((port_addresses::port_id.asc(), port_addresses::place.asc()));
    load_of!(conn, query, port_addresses::port_id, of, |row| &row.port_id)
}

/// Returns all addresses that ports have in a subnet.
pub fn addresses_of_subnet(conn: &mut Conn, subnet: &str) -> Result<Vec<String>, DbError> {
    Ok(port_addresses::table.filter(port_addresses::subnet_id.eq(subnet)).select(port_addresses::ip_address).load(conn)?)
}

/// Returns the id of the port that has an address.
pub fn holder_of_address(conn: &mut Conn, subnet: &str, ip: &str) -> Result<Option<String>, DbError> {
    Ok(port_addresses::table.find((subnet, ip)).select(port_addresses::port_id).first(conn).optional()?)
}

/// Gives an address to a port. Conflict if a port has it already.
pub fn add_address(conn: &mut Conn, row: &AddressRow) -> Result<(), DbError> {
    diesel::insert_into(port_addresses::table).values(row).execute(conn)?;
    Ok(())
}

/// Removes these addresses from their ports.
pub fn remove_addresses(conn: &mut Conn, rows: &[AddressRow]) -> Result<(), DbError> {
    for row in rows {
        diesel::delete(port_addresses::table.find((&row.subnet_id, &row.ip_address))).execute(conn)?;
    }
    Ok(())
}

/// Removes all addresses of a port.
pub fn clear_addresses(conn: &mut Conn, port: &str) -> Result<(), DbError> {
    diesel::delete(port_addresses::table.filter(port_addresses::port_id.eq(port))).execute(conn)?;
    Ok(())
}
