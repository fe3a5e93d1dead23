//! Regions that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::catalog_regions;

/// A region.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = catalog_regions)]
#[diesel(treat_none_as_null = true)]
pub struct Region {
    pub id: String,
    pub description: String,
    pub parent_region_id: Option<String>,
}

/// Returns all, ordered by id.
pub fn list(conn: &mut Conn) -> Result<Vec<Region>, DbError> {
    Ok(catalog_regions::table.order(catalog_regions::id).select(Region::as_select()).load(conn)?)
}

/// Stores a new region, or the new state of one.
pub fn save(conn: &mut Conn, region: &Region) -> Result<(), DbError> {
    if diesel::update(catalog_regions::table.find(&region.id)).set(region).execute(conn)? == 0 {
        diesel::insert_into(catalog_regions::table).values(region).execute(conn)?;
    }
    Ok(())
}

/// Deletes these regions.
pub fn delete(conn: &mut Conn, ids: &[String]) -> Result<(), DbError> {
    diesel::delete(catalog_regions::table.filter(catalog_regions::id.eq_any(ids))).execute(conn)?;
    Ok(())
}
