//! Endpoints that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::catalog_endpoints;

/// A service's URL for one interface.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = catalog_endpoints)]
#[diesel(treat_none_as_null = true)]
pub struct Endpoint {
    pub id: String,
    pub service_id: String,
    pub region_id: Option<String>,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    pub url: String,
    pub enabled: bool,
}

/// Returns all, ordered by id.
pub fn list(conn: &mut Conn) -> Result<Vec<Endpoint>, DbError> {
    Ok(catalog_endpoints::table.order(catalog_endpoints::id).select(Endpoint::as_select()).load(conn)?)
}

/// Stores a new endpoint, or the new state of one.
pub fn save(conn: &mut Conn, endpoint: &Endpoint) -> Result<(), DbError> {
    if diesel::update(catalog_endpoints::table.find(&endpoint.id)).set(endpoint).execute(conn)? == 0 {
        diesel::insert_into(catalog_endpoints::table).values(endpoint).execute(conn)?;
    }
    Ok(())
}

/// Deletes an endpoint.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.find(id)).execute(conn)?;
    Ok(())
}
