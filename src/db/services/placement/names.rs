//! Custom traits and resource classes: those that are not built in.

use diesel::prelude::*;

use super::schema::{custom_resource_classes, custom_traits, inventories, provider_traits};
use crate::db::{Conn, DbError};

/// Returns all custom traits.
pub fn traits(conn: &mut Conn) -> Result<Vec<String>, DbError> {
    Ok(custom_traits::table.select(custom_traits::name).order(custom_traits::name.asc()).load(conn)?)
}

/// Defines a trait. False if it exists.
pub fn add_trait(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let known: i64 = custom_traits::table.filter(custom_traits::name.eq(name)).count().get_result(conn)?;
    if known == 0 {
        diesel::insert_into(custom_traits::table).values(custom_traits::name.eq(name)).execute(conn)?;
    }
    Ok(known == 0)
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

/// Defines a class. False if it exists.
pub fn add_class(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let known: i64 = custom_resource_classes::table.filter(custom_resource_classes::name.eq(name)).count().get_result(conn)?;
    if known == 0 {
        diesel::insert_into(custom_resource_classes::table).values(custom_resource_classes::name.eq(name)).execute(conn)?;
    }
    Ok(known == 0)
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
