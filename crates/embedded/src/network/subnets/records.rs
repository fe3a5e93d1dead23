//! Subnets, and the address at which each subnet's search for a free address starts.

use std::collections::BTreeMap;

use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::dsl::count_star;
use diesel::prelude::*;

use crate::network::schema::{port_addresses, subnets};
use crate::network::statements::statements;
use crate::of::load_of;

/// A subnet.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = subnets, treat_none_as_null = true)]
pub struct SubnetRow {
    pub id: String,
    pub network_id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub ip_version: i32,
    pub cidr: String,
    pub gateway_ip: Option<String>,
    pub allocation_pools: String,
    pub dns_nameservers: String,
    pub host_routes: String,
    pub enable_dhcp: bool,
    pub tags: String,
    pub next_address: Option<String>,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
    /// The pool that the block was taken from.
    pub subnetpool_id: Option<String>,
}

statements!(subnets, SubnetRow: insert, find, save, delete);

/// Returns subnets of all networks or of these, oldest first.
pub fn list(conn: &mut Conn, of: Of<'_>) -> Result<Vec<SubnetRow>, DbError> {
    let query = subnets::table.order(subnets::number.asc()).select(SubnetRow::as_select());
    load_of!(conn, query, subnets::network_id, of, |row| &row.network_id)
}

/// Locks the subnet's row until the transaction ends, and returns it, so that two concurrent searches on PostgreSQL never find the same
/// free address. SQLite has a single writer.
pub fn hold(conn: &mut Conn, id: &str) -> Result<Option<SubnetRow>, DbError> {
    diesel::update(subnets::table.filter(subnets::id.eq(id))).set(subnets::next_address.eq(subnets::next_address)).execute(conn)?;
    find(conn, id)
}

/// Sets the address at which the next search starts.
pub fn set_next_address(conn: &mut Conn, id: &str, next: &str) -> Result<(), DbError> {
    diesel::update(subnets::table.filter(subnets::id.eq(id))).set(subnets::next_address.eq(next)).execute(conn)?;
    Ok(())
}

/// Counts the addresses that ports have in a subnet.
pub fn addresses_in_use(conn: &mut Conn, id: &str) -> Result<i64, DbError> {
    Ok(port_addresses::table.filter(port_addresses::subnet_id.eq(id)).count().get_result(conn)?)
}

/// Returns the number of addresses in use by subnet. A subnet without any has no entry.
pub fn addresses_by_subnet(conn: &mut Conn) -> Result<BTreeMap<String, i64>, DbError> {
    let counted = port_addresses::table.group_by(port_addresses::subnet_id).select((port_addresses::subnet_id, count_star()));
    Ok(counted.load::<(String, i64)>(conn)?.into_iter().collect())
}
