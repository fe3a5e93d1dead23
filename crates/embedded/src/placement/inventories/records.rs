//! The rows of inventories, with what is used of each.

use cellshift_store::{Conn, DbError, Of, rows};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Text};

use crate::of::load_of;
use crate::placement::Inventory;
use crate::placement::schema::inventories;

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

impl InventoryRow {
    /// Makes the row of an inventory of which nothing is used.
    pub fn new(provider: &str, class: &str, inventory: &Inventory) -> InventoryRow {
        let Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio } = *inventory;
        let (provider_uuid, resource_class) = (provider.to_owned(), class.to_owned());
        InventoryRow { provider_uuid, resource_class, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used: 0 }
    }

    /// Converts the row into an inventory for callers.
    pub fn inventory(&self) -> Inventory {
        let InventoryRow { total, reserved, min_unit, max_unit, step_size, allocation_ratio, .. } = *self;
        Inventory { total, reserved, min_unit, max_unit, step_size, allocation_ratio }
    }
}

/// Returns inventories, ordered by provider and class.
pub fn of_providers(conn: &mut Conn, of: Of<'_>) -> Result<Vec<InventoryRow>, DbError> {
    let query = inventories::table.order((inventories::provider_uuid.asc(), inventories::resource_class.asc()));
    load_of!(conn, query, inventories::provider_uuid, of, |row| &row.provider_uuid)
}

/// Saves the inventory of one class, and keeps the `used` of an existing one.
pub fn put(conn: &mut Conn, row: &InventoryRow) -> Result<(), DbError> {
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
        add(conn, row)?;
    }
    Ok(())
}

/// Adds the inventory of a class that the provider does not have.
pub fn add(conn: &mut Conn, row: &InventoryRow) -> Result<(), DbError> {
    diesel::insert_into(inventories::table).values(row).execute(conn)?;
    Ok(())
}

/// Adds inventories that their providers do not have.
pub fn add_all(conn: &mut Conn, inventories: &[InventoryRow]) -> Result<(), DbError> {
    let amounts = ["total", "reserved", "min_unit", "max_unit", "step_size"];
    let columns = [&["provider_uuid", "resource_class"], amounts.as_slice(), &["allocation_ratio", "used"]].concat();
    rows::insert(conn, ("inventories", &columns), inventories, |statement, row| {
        let statement = statement.bind::<Text, _>(&row.provider_uuid).bind::<Text, _>(&row.resource_class);
        let amounts = [row.total, row.reserved, row.min_unit, row.max_unit, row.step_size];
        let counted = amounts.into_iter().fold(statement, |statement, amount| statement.bind::<BigInt, _>(amount));
        counted.bind::<Double, _>(row.allocation_ratio).bind::<BigInt, _>(row.used)
    })
}

/// Removes one class's inventory. The caller has checked that nothing of it is used.
pub fn delete(conn: &mut Conn, provider: &str, class: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(inventories::table.find((provider, class))).execute(conn)? == 1)
}

/// Adds to the usage of classes: provider, class and amount.
pub fn add_used(conn: &mut Conn, amounts: &[(&str, &str, i64)]) -> Result<(), DbError> {
    let text = |values: &str| {
        format!(
            "UPDATE inventories SET used = used + amounts.column3 FROM (VALUES {values}) AS amounts \
             WHERE provider_uuid = amounts.column1 AND resource_class = amounts.column2"
        )
    };
    rows::execute(conn, 3, text, amounts, |statement, (provider, class, amount)| {
        statement.bind::<Text, _>(provider).bind::<Text, _>(class).bind::<BigInt, _>(amount)
    })
}
