//! Services that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::{catalog_endpoints, catalog_services};

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

/// Returns all, ordered by id.
pub fn list(conn: &mut Conn) -> Result<Vec<CatalogService>, DbError> {
    Ok(catalog_services::table.order(catalog_services::id).select(CatalogService::as_select()).load(conn)?)
}

/// Stores a new service, or the new state of one.
pub fn save(conn: &mut Conn, service: &CatalogService) -> Result<(), DbError> {
    if diesel::update(catalog_services::table.find(&service.id)).set(service).execute(conn)? == 0 {
        diesel::insert_into(catalog_services::table).values(service).execute(conn)?;
    }
    Ok(())
}

/// Deletes a service and its endpoints.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.filter(catalog_endpoints::service_id.eq(id))).execute(conn)?;
    diesel::delete(catalog_services::table.find(id)).execute(conn)?;
    Ok(())
}
