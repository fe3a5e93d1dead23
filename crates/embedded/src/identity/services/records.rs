//! Services that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::{catalog_endpoints, catalog_services};
use crate::identity::statements;

/// A service.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = catalog_services)]
pub struct CatalogService {
    pub id: String,
    pub service_type: String,
    pub name: String,
    pub description: String,
    pub enabled: bool,
}

statements::of_catalog!(catalog_services, CatalogService);

/// Deletes a service and its endpoints.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.filter(catalog_endpoints::service_id.eq(id))).execute(conn)?;
    diesel::delete(catalog_services::table.find(id)).execute(conn)?;
    Ok(())
}
