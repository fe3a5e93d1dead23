//! Regions that administrators add to the catalog.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;

use crate::identity::schema::catalog_regions;
use crate::identity::statements;

/// A region.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = catalog_regions)]
#[diesel(treat_none_as_null = true)]
pub struct Region {
    pub id: String,
    pub description: String,
    pub parent_region_id: Option<String>,
}

statements::of_catalog!(catalog_regions, Region);

/// Deletes these regions.
pub fn delete(conn: &mut Conn, ids: &[String]) -> Result<(), DbError> {
    diesel::delete(catalog_regions::table.filter(catalog_regions::id.eq_any(ids))).execute(conn)?;
    Ok(())
}
