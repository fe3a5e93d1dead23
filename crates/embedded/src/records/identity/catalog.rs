//! Services, endpoints and regions that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use super::schema::{catalog_endpoints, catalog_regions, catalog_services};

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

/// A region.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = catalog_regions)]
#[diesel(treat_none_as_null = true)]
pub struct Region {
    pub id: String,
    pub description: String,
    pub parent_region_id: Option<String>,
}

/// The records of the catalog.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    pub services: Vec<CatalogService>,
    pub endpoints: Vec<Endpoint>,
    pub regions: Vec<Region>,
}

/// Returns all records, ordered by id.
pub fn read(conn: &mut Conn) -> Result<Catalog, DbError> {
    Ok(Catalog {
        services: catalog_services::table.order(catalog_services::id).select(CatalogService::as_select()).load(conn)?,
        endpoints: catalog_endpoints::table.order(catalog_endpoints::id).select(Endpoint::as_select()).load(conn)?,
        regions: catalog_regions::table.order(catalog_regions::id).select(Region::as_select()).load(conn)?,
    })
}

/// Stores a new service, or the new state of one.
pub fn save_service(conn: &mut Conn, service: &CatalogService) -> Result<(), DbError> {
    if diesel::update(catalog_services::table.find(&service.id)).set(service).execute(conn)? == 0 {
        diesel::insert_into(catalog_services::table).values(service).execute(conn)?;
    }
    Ok(())
}

/// Stores a new endpoint, or the new state of one.
pub fn save_endpoint(conn: &mut Conn, endpoint: &Endpoint) -> Result<(), DbError> {
    if diesel::update(catalog_endpoints::table.find(&endpoint.id)).set(endpoint).execute(conn)? == 0 {
        diesel::insert_into(catalog_endpoints::table).values(endpoint).execute(conn)?;
    }
    Ok(())
}

/// Stores a new region, or the new state of one.
pub fn save_region(conn: &mut Conn, region: &Region) -> Result<(), DbError> {
    if diesel::update(catalog_regions::table.find(&region.id)).set(region).execute(conn)? == 0 {
        diesel::insert_into(catalog_regions::table).values(region).execute(conn)?;
    }
    Ok(())
}

/// Deletes a service and its endpoints.
pub fn delete_service(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.filter(catalog_endpoints::service_id.eq(id))).execute(conn)?;
    diesel::delete(catalog_services::table.find(id)).execute(conn)?;
    Ok(())
}

/// Deletes an endpoint.
pub fn delete_endpoint(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(catalog_endpoints::table.find(id)).execute(conn)?;
    Ok(())
}

/// Deletes these regions.
pub fn delete_regions(conn: &mut Conn, ids: &[String]) -> Result<(), DbError> {
    diesel::delete(catalog_regions::table.filter(catalog_regions::id.eq_any(ids))).execute(conn)?;
    Ok(())
}
