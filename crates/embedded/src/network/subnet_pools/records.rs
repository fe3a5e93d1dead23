//! Subnet pools: address blocks that subnets are taken from.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::{subnet_pools, subnets};

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

/// Adds a pool.
pub fn insert(conn: &mut Conn, _: QuotaGrant<PoolRow>, row: &PoolRow) -> Result<(), DbError> {
    diesel::insert_into(subnet_pools::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns all pools, oldest first.
pub fn list(conn: &mut Conn) -> Result<Vec<PoolRow>, DbError> {
    Ok(subnet_pools::table.order(subnet_pools::number.asc()).select(PoolRow::as_select()).load(conn)?)
}

/// Returns the pool with this id.
pub fn find(conn: &mut Conn, id: &str) -> Result<Option<PoolRow>, DbError> {
    Ok(subnet_pools::table.filter(subnet_pools::id.eq(id)).select(PoolRow::as_select()).first(conn).optional()?)
}

/// Returns the default pool of an IP version.
pub fn default_of(conn: &mut Conn, ip_version: i32) -> Result<Option<PoolRow>, DbError> {
    let defaults = subnet_pools::table.filter(subnet_pools::is_default.eq(true)).filter(subnet_pools::ip_version.eq(ip_version));
    Ok(defaults.select(PoolRow::as_select()).first(conn).optional()?)
}

/// Locks the pool's row until the transaction ends, so that two allocations on PostgreSQL follow each other and none overlaps. SQLite has a
/// single writer.
pub fn hold(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::update(subnet_pools::table.filter(subnet_pools::id.eq(id)))
        .set(subnet_pools::updated_at.eq(subnet_pools::updated_at))
        .execute(conn)?;
    Ok(())
}

/// Writes all columns.
pub fn save(conn: &mut Conn, row: &PoolRow) -> Result<(), DbError> {
    diesel::update(subnet_pools::table.filter(subnet_pools::id.eq(&row.id))).set(row).execute(conn)?;
    Ok(())
}

/// Removes a pool, which must have no subnets.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(subnet_pools::table.filter(subnet_pools::id.eq(id))).execute(conn)?;
    Ok(())
}

/// Returns the blocks of the subnets that were taken from the pool, each with its subnet's project.
pub fn allocations(conn: &mut Conn, id: &str) -> Result<Vec<(String, String)>, DbError> {
    Ok(subnets::table.filter(subnets::subnetpool_id.eq(id)).select((subnets::cidr, subnets::project_id)).load(conn)?)
}
