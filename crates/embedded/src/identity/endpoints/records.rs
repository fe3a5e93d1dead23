//! Endpoints that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::catalog_endpoints;
use crate::identity::statements;

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

statements::of_catalog!(catalog_endpoints, Endpoint);

/// Deletes an endpoint.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.find(id)).execute(conn)?;
    Ok(())
}
