//! Subnet pools: address blocks that subnets are taken from.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::{subnet_pools, subnets};
use crate::network::statements::statements;

/// A subnet pool.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = subnet_pools, treat_none_as_null = true)]
pub struct PoolRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub ip_version: i32,
    /// A JSON list of blocks.
    pub prefixes: String,
    pub default_prefixlen: i32,
    pub min_prefixlen: i32,
    pub max_prefixlen: i32,
    pub default_quota: Option<i32>,
    pub shared: bool,
    pub is_default: bool,
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

statements!(subnet_pools, PoolRow: insert, list, find, hold, save, delete);

/// Returns the default pool of an IP version.
pub fn default_of(conn: &mut Conn, ip_version: i32) -> Result<Option<PoolRow>, DbError> {
    let defaults = subnet_pools::table.filter(subnet_pools::is_default.eq(true)).filter(subnet_pools::ip_version.eq(ip_version));
    Ok(defaults.select(PoolRow::as_select()).first(conn).optional()?)
}

/// Returns the blocks of the subnets that were taken from the pool, each with its subnet's project.
pub fn allocations(conn: &mut Conn, id: &str) -> Result<Vec<(String, String)>, DbError> {
    Ok(subnets::table.filter(subnets::subnetpool_id.eq(id)).select((subnets::cidr, subnets::project_id)).load(conn)?)
}
