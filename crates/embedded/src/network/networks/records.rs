//! Networks.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::networks;

/// A network.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = networks, treat_none_as_null = true)]
pub struct NetworkRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub admin_state_up: bool,
    pub shared: bool,
    pub external: bool,
    pub mtu: i32,
    pub network_type: Option<String>,
    pub physical_network: Option<String>,
    pub segmentation_id: Option<i32>,
    pub qos_policy_id: Option<String>,
    pub port_security_enabled: bool,
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

/// Adds a network.
pub fn insert(conn: &mut Conn, _: QuotaGrant<NetworkRow>, row: &NetworkRow) -> Result<(), DbError> {
    diesel::insert_into(networks::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns all networks, oldest first.
pub fn list(conn: &mut Conn) -> Result<Vec<NetworkRow>, DbError> {
    Ok(networks::table.order(networks::number.asc()).select(NetworkRow::as_select()).load(conn)?)
}

/// Returns the networks with these ids.
pub fn these(conn: &mut Conn, ids: &[String]) -> Result<Vec<NetworkRow>, DbError> {
    let (of, query) = (Of::These(ids), networks::table.order(networks::number.asc()).select(NetworkRow::as_select()));
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(networks::id.eq_any(ids)).load(conn)?,
    };
    Ok(of.keep(rows, |row: &NetworkRow| &row.id))
}

/// Returns the network with this id.
pub fn find(conn: &mut Conn, id: &str) -> Result<Option<NetworkRow>, DbError> {
    Ok(networks::table.filter(networks::id.eq(id)).select(NetworkRow::as_select()).first(conn).optional()?)
}

/// Locks the network's row until the transaction ends, so that two changes on PostgreSQL follow each other and none is lost. SQLite has a
/// single writer.
pub fn hold(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::update(networks::table.filter(networks::id.eq(id))).set(networks::updated_at.eq(networks::updated_at)).execute(conn)?;
    Ok(())
}

/// Writes all columns.
pub fn save(conn: &mut Conn, row: &NetworkRow) -> Result<(), DbError> {
    diesel::update(networks::table.filter(networks::id.eq(&row.id))).set(row).execute(conn)?;
    Ok(())
}

/// Removes a network, which must have no subnets or ports.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(networks::table.filter(networks::id.eq(id))).execute(conn)?;
    Ok(())
}
