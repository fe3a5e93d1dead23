//! Custom resource classes: those that are not built in.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::placement::schema::{allocations, custom_resource_classes, inventories, resource_providers};
use crate::placement::statements;

/// The number of providers that one statement updates.
const UPDATED_AT_ONCE: usize = 500;

statements::custom_names!(custom_resource_classes);

/// True if a provider has an inventory of the class.
pub fn is_used(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let uses: i64 = inventories::table.filter(inventories::resource_class.eq(name)).count().get_result(conn)?;
    Ok(uses > 0)
}

/// Gives a class another name where something is offered or allocated of it.
pub fn rename(conn: &mut Conn, old: &str, new: &str) -> Result<(), DbError> {
    diesel::update(inventories::table.filter(inventories::resource_class.eq(old)))
        .set(inventories::resource_class.eq(new))
        .execute(conn)?;
    diesel::update(allocations::table.filter(allocations::resource_class.eq(old)))
        .set(allocations::resource_class.eq(new))
        .execute(conn)?;
    // Records in memory follow the providers' rows.
    let of_class = inventories::table.filter(inventories::resource_class.eq(new));
    let holders: Vec<String> = of_class.select(inventories::provider_uuid).order(inventories::provider_uuid).load(conn)?;
    for part in holders.chunks(UPDATED_AT_ONCE) {
        let same = resource_providers::generation.eq(resource_providers::generation);
        diesel::update(resource_providers::table.filter(resource_providers::uuid.eq_any(part))).set(same).execute(conn)?;
    }
    Ok(())
}
