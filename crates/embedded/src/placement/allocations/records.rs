//! Consumers and their allocations.

use cellshift_store::{Conn, DbError, rows};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use crate::placement::schema::{allocations, consumers};

/// A consumer of resources: a server, or a migration that holds a server's old resources.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = consumers)]
pub struct ConsumerRow {
    pub uuid: String,
    pub project_id: String,
    pub user_id: String,
    pub consumer_type: String,
    pub generation: i64,
}

/// An amount of one resource class that a consumer takes from one provider.
#[derive(Clone, PartialEq, Eq, Debug, Queryable)]
pub struct AllocationRow {
    pub consumer_uuid: String,
    pub provider_uuid: String,
    pub resource_class: String,
    pub used: i64,
}

/// Returns the consumer with this id.
pub fn consumer(conn: &mut Conn, uuid: &str) -> Result<Option<ConsumerRow>, DbError> {
    Ok(consumers::table.find(uuid).first(conn).optional()?)
}

/// Returns all consumers, ordered by id.
pub fn consumers_all(conn: &mut Conn) -> Result<Vec<ConsumerRow>, DbError> {
    Ok(consumers::table.order(consumers::uuid.asc()).load(conn)?)
}

/// Adds a consumer. Conflict if it exists.
pub fn insert_consumer(conn: &mut Conn, row: &ConsumerRow) -> Result<(), DbError> {
    diesel::insert_into(consumers::table).values(row).execute(conn)?;
    Ok(())
}

/// Saves a consumer if its stored generation is one below `row`'s. False if the generation differs.
pub fn update_consumer(conn: &mut Conn, row: &ConsumerRow) -> Result<bool, DbError> {
    let target = consumers::table.find(&row.uuid).filter(consumers::generation.eq(row.generation - 1));
    let changed = diesel::update(target)
        .set((
            consumers::project_id.eq(&row.project_id),
            consumers::user_id.eq(&row.user_id),
            consumers::consumer_type.eq(&row.consumer_type),
            consumers::generation.eq(row.generation),
        ))
        .execute(conn)?;
    Ok(changed == 1)
}

/// Removes a consumer, which must have no allocations. False if its generation differs.
pub fn delete_consumer(conn: &mut Conn, uuid: &str, generation: i64) -> Result<bool, DbError> {
    Ok(diesel::delete(consumers::table.find(uuid).filter(consumers::generation.eq(generation))).execute(conn)? == 1)
}

/// Returns a consumer's allocations, ordered by provider and class.
pub fn of_consumer(conn: &mut Conn, uuid: &str) -> Result<Vec<AllocationRow>, DbError> {
    Ok(allocations::table
        .filter(allocations::consumer_uuid.eq(uuid))
        .order((allocations::provider_uuid.asc(), allocations::resource_class.asc()))
        .load(conn)?)
}

/// Returns the allocations from a provider, each with its consumer's generation.
pub fn of_provider(conn: &mut Conn, uuid: &str) -> Result<Vec<(AllocationRow, i64)>, DbError> {
    Ok(allocations::table
        .inner_join(consumers::table.on(consumers::uuid.eq(allocations::consumer_uuid)))
        .filter(allocations::provider_uuid.eq(uuid))
        .order((allocations::consumer_uuid.asc(), allocations::resource_class.asc()))
        .select((allocations::all_columns, consumers::generation))
        .load(conn)?)
}

/// Returns all allocations, ordered by consumer.
pub fn all(conn: &mut Conn) -> Result<Vec<AllocationRow>, DbError> {
    Ok(allocations::table
        .order((allocations::consumer_uuid.asc(), allocations::provider_uuid.asc(), allocations::resource_class.asc()))
        .load(conn)?)
}

/// Removes all allocations of a consumer.
pub fn delete_of_consumer(conn: &mut Conn, uuid: &str) -> Result<(), DbError> {
    diesel::delete(allocations::table.filter(allocations::consumer_uuid.eq(uuid))).execute(conn)?;
    Ok(())
}

/// Adds allocations.
pub fn insert_all(conn: &mut Conn, allocations: &[AllocationRow]) -> Result<(), DbError> {
    let columns = ["consumer_uuid", "provider_uuid", "resource_class", "used"];
    rows::insert(conn, ("allocations", &columns), allocations, |statement, row| {
        let statement = statement.bind::<Text, _>(&row.consumer_uuid).bind::<Text, _>(&row.provider_uuid);
        statement.bind::<Text, _>(&row.resource_class).bind::<BigInt, _>(row.used)
    })
}

/// An allocation of a project's consumer.
#[derive(Clone, PartialEq, Eq, Debug, Queryable)]
pub struct ProjectRow {
    pub consumer_uuid: String,
    pub user_id: String,
    pub consumer_type: String,
    pub resource_class: String,
    pub used: i64,
}

/// Returns all allocations of a project's consumers.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<Vec<ProjectRow>, DbError> {
    Ok(allocations::table
        .inner_join(consumers::table.on(consumers::uuid.eq(allocations::consumer_uuid)))
        .filter(consumers::project_id.eq(project))
        .order((allocations::consumer_uuid.asc(), allocations::resource_class.asc()))
        .select((consumers::uuid, consumers::user_id, consumers::consumer_type, allocations::resource_class, allocations::used))
        .load(conn)?)
}
