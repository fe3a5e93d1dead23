//! The rows of resource providers.

use cellshift_env::guard::{Guard, stands};
use cellshift_store::{Conn, DbError, Of, rows};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::of::load_of;
use crate::placement::schema::{allocations, inventories, provider_aggregates, provider_traits, resource_providers};

/// A provider's row, without inventories, traits and aggregates.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = resource_providers)]
pub struct ProviderRow {
    pub uuid: String,
    pub name: String,
    pub generation: i64,
    pub parent_uuid: Option<String>,
}

/// Adds a provider. Conflict if its id or name exists.
pub fn insert(conn: &mut Conn, row: &ProviderRow) -> Result<(), DbError> {
    diesel::insert_into(resource_providers::table).values(row).execute(conn)?;
    Ok(())
}

/// Adds providers; a parent may be among them. Conflict if an id or name exists.
pub fn insert_all(conn: &mut Conn, providers: &[ProviderRow]) -> Result<(), DbError> {
    let columns = &["uuid", "name", "generation", "parent_uuid"];
    rows::insert(conn, ("resource_providers", columns), providers, |statement, row| {
        let statement = statement.bind::<Text, _>(&row.uuid).bind::<Text, _>(&row.name);
        statement.bind::<BigInt, _>(row.generation).bind::<Nullable<Text>, _>(&row.parent_uuid)
    })
}

/// True if a provider has one of these ids or names.
pub fn any_exists(conn: &mut Conn, providers: &[ProviderRow]) -> Result<bool, DbError> {
    let ids = resource_providers::uuid.eq_any(providers.iter().map(|row| &row.uuid));
    let names = resource_providers::name.eq_any(providers.iter().map(|row| &row.name));
    let holder = resource_providers::table.filter(ids.or(names)).select(resource_providers::uuid).first::<String>(conn);
    Ok(holder.optional()?.is_some())
}

/// Returns the provider with this id.
pub fn find(conn: &mut Conn, uuid: &str) -> Result<Option<ProviderRow>, DbError> {
    Ok(resource_providers::table.find(uuid).first(conn).optional()?)
}

/// Returns the provider with this name.
pub fn find_named(conn: &mut Conn, name: &str) -> Result<Option<ProviderRow>, DbError> {
    Ok(resource_providers::table.filter(resource_providers::name.eq(name)).first(conn).optional()?)
}

/// Returns the providers with these names.
pub fn list_named(conn: &mut Conn, names: &[String]) -> Result<Vec<ProviderRow>, DbError> {
    Ok(resource_providers::table.filter(resource_providers::name.eq_any(names)).load(conn)?)
}

/// Returns providers, ordered by name.
pub fn list(conn: &mut Conn, of: Of<'_>) -> Result<Vec<ProviderRow>, DbError> {
    let query = resource_providers::table.order(resource_providers::name.asc());
    load_of!(conn, query, resource_providers::uuid, of, |row| &row.uuid)
}

/// Raises the generation by one. False if there is no such provider or if the generation is not `expected`.
///
/// On PostgreSQL this also locks the row until the transaction ends, so that no other writer changes the provider meanwhile. Each change of
/// a provider starts here.
pub fn bump(conn: &mut Conn, uuid: &str, expected: Option<i64>) -> Result<bool, DbError> {
    let target = resource_providers::table.find(uuid);
    let raised = resource_providers::generation.eq(resource_providers::generation + 1);
    let rows = match expected.filter(|_| stands(Guard::ProviderGeneration)) {
        None => diesel::update(target).set(raised).execute(conn)?,
        Some(generation) => diesel::update(target.filter(resource_providers::generation.eq(generation))).set(raised).execute(conn)?,
    };
    Ok(rows == 1)
}

/// Locks the provider's row until the transaction ends, as [`bump`] does, but keeps the generation. False if there is no such provider.
pub fn hold(conn: &mut Conn, uuid: &str) -> Result<bool, DbError> {
    let same = resource_providers::generation.eq(resource_providers::generation);
    Ok(diesel::update(resource_providers::table.find(uuid)).set(same).execute(conn)? == 1)
}

/// Changes the name and the parent.
pub fn set_identity(conn: &mut Conn, uuid: &str, name: &str, parent: Option<&str>) -> Result<(), DbError> {
    diesel::update(resource_providers::table.find(uuid))
        .set((resource_providers::name.eq(name), resource_providers::parent_uuid.eq(parent)))
        .execute(conn)?;
    Ok(())
}

/// Returns the providers whose parent is one of these, ordered by name.
pub fn children_of(conn: &mut Conn, parents: &[String]) -> Result<Vec<ProviderRow>, DbError> {
    let query = resource_providers::table.order(resource_providers::name.asc());
    Ok(query.filter(resource_providers::parent_uuid.eq_any(parents)).load(conn)?)
}

/// True if another provider names this one as its parent.
pub fn has_children(conn: &mut Conn, uuid: &str) -> Result<bool, DbError> {
    let children: i64 = resource_providers::table.filter(resource_providers::parent_uuid.eq(uuid)).count().get_result(conn)?;
    Ok(children > 0)
}

/// True if a consumer has an allocation from this provider.
pub fn is_used(conn: &mut Conn, uuid: &str) -> Result<bool, DbError> {
    let rows: i64 = allocations::table.filter(allocations::provider_uuid.eq(uuid)).count().get_result(conn)?;
    Ok(rows > 0)
}

/// Removes an unused provider with its inventories, traits and aggregates.
pub fn delete(conn: &mut Conn, uuid: &str) -> Result<bool, DbError> {
    diesel::delete(inventories::table.filter(inventories::provider_uuid.eq(uuid))).execute(conn)?;
    diesel::delete(provider_traits::table.filter(provider_traits::provider_uuid.eq(uuid))).execute(conn)?;
    diesel::delete(provider_aggregates::table.filter(provider_aggregates::provider_uuid.eq(uuid))).execute(conn)?;
    Ok(diesel::delete(resource_providers::table.find(uuid)).execute(conn)? == 1)
}
