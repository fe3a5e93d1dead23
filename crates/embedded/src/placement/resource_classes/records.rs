//! Custom traits and resource classes: those that are not built in.

use cellshift_store::{Conn, DbError};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::placement::schema::{allocations, custom_resource_classes, custom_traits, inventories, provider_traits, resource_providers};

/// The number of providers that one statement updates.
const UPDATED_AT_ONCE: usize = 500;

/// Returns all custom traits.
pub fn traits(conn: &mut Conn) -> Result<Vec<String>, DbError> {
    Ok(custom_traits::table.select(custom_traits::name).order(custom_traits::name.asc()).load(conn)?)
}

/// Defines a trait. False if it exists, also by another writer of this moment: hosts report the same traits at once.
pub fn add_trait(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let added = diesel::sql_query("INSERT INTO custom_traits (name) VALUES ($1) ON CONFLICT (name) DO NOTHING");
    Ok(added.bind::<Text, _>(name).execute(conn)? == 1)
}

/// True if a provider has the trait.
pub fn trait_in_use(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let uses: i64 = provider_traits::table.filter(provider_traits::name.eq(name)).count().get_result(conn)?;
    Ok(uses > 0)
}

/// Removes a trait. False if there was none.
pub fn delete_trait(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(custom_traits::table.filter(custom_traits::name.eq(name))).execute(conn)? == 1)
}

/// Returns all custom resource classes.
pub fn classes(conn: &mut Conn) -> Result<Vec<String>, DbError> {
    Ok(custom_resource_classes::table.select(custom_resource_classes::name).order(custom_resource_classes::name.asc()).load(conn)?)
}

/// Defines a class as [`add_trait`] does a trait.
pub fn add_class(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let added = diesel::sql_query("INSERT INTO custom_resource_classes (name) VALUES ($1) ON CONFLICT (name) DO NOTHING");
    Ok(added.bind::<Text, _>(name).execute(conn)? == 1)
}

/// True if a provider has an inventory of the class.
pub fn class_in_use(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let uses: i64 = inventories::table.filter(inventories::resource_class.eq(name)).count().get_result(conn)?;
    Ok(uses > 0)
}

/// Removes a class. False if there was none.
pub fn delete_class(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(custom_resource_classes::table.filter(custom_resource_classes::name.eq(name))).execute(conn)? == 1)
}

/// Gives a class another name where something is offered or taken of it.
pub fn rename_class(conn: &mut Conn, old: &str, new: &str) -> Result<(), DbError> {
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
