//! Resource providers: their rows, inventories, traits and aggregates.

use cellshift_env::guard::{Guard, stands};
use cellshift_store::{Conn, DbError, rows};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text};

use crate::placement::schema::{allocations, inventories, provider_aggregates, provider_traits, resource_providers};
pub use cellshift_store::Of;

/// A provider's row, without inventories, traits and aggregates.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = resource_providers)]
pub struct ProviderRow {
    pub uuid: String,
    pub name: String,
    pub generation: i64,
    pub parent_uuid: Option<String>,
}

/// A provider's inventory of one resource class, and its usage.
#[derive(Clone, PartialEq, Debug, Queryable, Insertable)]
#[diesel(table_name = inventories)]
pub struct InventoryRow {
    pub provider_uuid: String,
    pub resource_class: String,
    pub total: i64,
    pub reserved: i64,
    pub min_unit: i64,
    pub max_unit: i64,
    pub step_size: i64,
    pub allocation_ratio: f64,
    pub used: i64,
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
        let named = statement.bind::<Text, _>(&row.uuid).bind::<Text, _>(&row.name);
        named.bind::<BigInt, _>(row.generation).bind::<Nullable<Text>, _>(&row.parent_uuid)
    })
}

/// True if a provider has one of these ids or names.
pub fn are_taken(conn: &mut Conn, providers: &[ProviderRow]) -> Result<bool, DbError> {
    let ids = resource_providers::uuid.eq_any(providers.iter().map(|row| &row.uuid));
    let names = resource_providers::name.eq_any(providers.iter().map(|row| &row.name));
    let taken = resource_providers::table.filter(ids.or(names)).select(resource_providers::uuid).first::<String>(conn);
    Ok(taken.optional()?.is_some())
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
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(resource_providers::uuid.eq_any(ids)).load(conn)?,
    };
    Ok(of.keep(rows, |row| &row.uuid))
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

/// Returns inventories, ordered by provider and class.
pub fn inventories_of(conn: &mut Conn, of: Of<'_>) -> Result<Vec<InventoryRow>, DbError> {
    let query = inventories::table.order((inventories::provider_uuid.asc(), inventories::resource_class.asc()));
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(inventories::provider_uuid.eq_any(ids)).load(conn)?,
    };
    Ok(of.keep(rows, |row| &row.provider_uuid))
}

/// Saves the inventory of one class, and keeps the `used` of an existing one.
pub fn put_inventory(conn: &mut Conn, row: &InventoryRow) -> Result<(), DbError> {
    let changed = diesel::update(inventories::table.find((&row.provider_uuid, &row.resource_class)))
        .set((
            inventories::total.eq(row.total),
            inventories::reserved.eq(row.reserved),
            inventories::min_unit.eq(row.min_unit),
            inventories::max_unit.eq(row.max_unit),
            inventories::step_size.eq(row.step_size),
            inventories::allocation_ratio.eq(row.allocation_ratio),
        ))
        .execute(conn)?;
    if changed == 0 {
        add_inventory(conn, row)?;
    }
    Ok(())
}

/// Adds the inventory of a class that the provider does not have.
pub fn add_inventory(conn: &mut Conn, row: &InventoryRow) -> Result<(), DbError> {
    diesel::insert_into(inventories::table).values(row).execute(conn)?;
    Ok(())
}

/// Adds inventories that their providers do not have.
pub fn add_inventories(conn: &mut Conn, inventories: &[InventoryRow]) -> Result<(), DbError> {
    let amounts = ["total", "reserved", "min_unit", "max_unit", "step_size"];
    let columns = [&["provider_uuid", "resource_class"], amounts.as_slice(), &["allocation_ratio", "used"]].concat();
    rows::insert(conn, ("inventories", &columns), inventories, |statement, row| {
        let named = statement.bind::<Text, _>(&row.provider_uuid).bind::<Text, _>(&row.resource_class);
        let amounts = [row.total, row.reserved, row.min_unit, row.max_unit, row.step_size];
        let counted = amounts.into_iter().fold(named, |statement, amount| statement.bind::<BigInt, _>(amount));
        counted.bind::<Double, _>(row.allocation_ratio).bind::<BigInt, _>(row.used)
    })
}

/// Removes one class's inventory. The caller has checked that nothing of it is used.
pub fn delete_inventory(conn: &mut Conn, provider: &str, class: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(inventories::table.find((provider, class))).execute(conn)? == 1)
}

/// Adds to the usage of classes: provider, class and amount.
pub fn add_used(conn: &mut Conn, taken: &[(&str, &str, i64)]) -> Result<(), DbError> {
    let text = |values: &str| {
        format!(
            "UPDATE inventories SET used = used + taken.column3 FROM (VALUES {values}) AS taken \
             WHERE provider_uuid = taken.column1 AND resource_class = taken.column2"
        )
    };
    rows::execute(conn, 3, text, taken, |statement, (provider, class, amount)| {
        statement.bind::<Text, _>(provider).bind::<Text, _>(class).bind::<BigInt, _>(amount)
    })
}

/// Returns `(provider, trait)` pairs.
pub fn traits_of(conn: &mut Conn, of: Of<'_>) -> Result<Vec<(String, String)>, DbError> {
    let query = provider_traits::table.order((provider_traits::provider_uuid.asc(), provider_traits::name.asc()));
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(provider_traits::provider_uuid.eq_any(ids)).load(conn)?,
    };
    Ok(of.keep(rows, |(provider, _)| provider))
}

/// Replaces a provider's traits.
pub fn set_traits(conn: &mut Conn, provider: &str, names: &[String]) -> Result<(), DbError> {
    diesel::delete(provider_traits::table.filter(provider_traits::provider_uuid.eq(provider))).execute(conn)?;
    for name in names {
        diesel::insert_into(provider_traits::table)
            .values((provider_traits::provider_uuid.eq(provider), provider_traits::name.eq(name)))
            .execute(conn)?;
    }
    Ok(())
}

/// Adds `(provider, trait)` pairs that are not there.
pub fn add_traits(conn: &mut Conn, pairs: &[(String, String)]) -> Result<(), DbError> {
    rows::insert(conn, ("provider_traits", &["provider_uuid", "name"]), pairs, |statement, (provider, name)| {
        statement.bind::<Text, _>(provider).bind::<Text, _>(name)
    })
}

/// Returns `(provider, aggregate)` pairs.
pub fn aggregates_of(conn: &mut Conn, of: Of<'_>) -> Result<Vec<(String, String)>, DbError> {
    let query = provider_aggregates::table.order((provider_aggregates::provider_uuid.asc(), provider_aggregates::aggregate_uuid.asc()));
    let rows = match of.ids() {
        None => query.load(conn)?,
        Some(ids) => query.filter(provider_aggregates::provider_uuid.eq_any(ids)).load(conn)?,
    };
    Ok(of.keep(rows, |(provider, _)| provider))
}

/// Adds `(provider, aggregate)` pairs that are not there.
pub fn add_aggregates(conn: &mut Conn, pairs: &[(String, String)]) -> Result<(), DbError> {
    rows::insert(conn, ("provider_aggregates", &["provider_uuid", "aggregate_uuid"]), pairs, |statement, (provider, aggregate)| {
        statement.bind::<Text, _>(provider).bind::<Text, _>(aggregate)
    })
}

/// Replaces a provider's aggregates.
pub fn set_aggregates(conn: &mut Conn, provider: &str, aggregates: &[String]) -> Result<(), DbError> {
    diesel::delete(provider_aggregates::table.filter(provider_aggregates::provider_uuid.eq(provider))).execute(conn)?;
    for aggregate in aggregates {
        diesel::insert_into(provider_aggregates::table)
            .values((provider_aggregates::provider_uuid.eq(provider), provider_aggregates::aggregate_uuid.eq(aggregate)))
            .execute(conn)?;
    }
    Ok(())
}
