//! Consumers and their allocations.

use diesel::prelude::*;

use super::schema::{allocations, consumers};
use crate::db::{Conn, DbError};

/// Who takes resources: a server, or a migration that holds a server's old ones.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = consumers)]
pub struct ConsumerRow {
    pub uuid: String,
    pub project_id: String,
    pub user_id: String,
    pub consumer_type: String,
    pub generation: i64,
}

/// One amount of one class taken from one provider.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Insertable)]
#[diesel(table_name = allocations)]
pub struct AllocationRow {
    pub consumer_uuid: String,
    pub provider_uuid: String,
    pub resource_class: String,
    pub used: i64,
}

/// One consumer.
pub fn consumer(conn: &mut Conn, uuid: &str) -> Result<Option<ConsumerRow>, DbError> {
    Ok(consumers::table.find(uuid).first(conn).optional()?)
}

/// All consumers by id.
pub fn consumers_all(conn: &mut Conn) -> Result<Vec<ConsumerRow>, DbError> {
    Ok(consumers::table.order(consumers::uuid.asc()).load(conn)?)
}

/// Adds a consumer. Conflict when it exists.
pub fn insert_consumer(conn: &mut Conn, row: &ConsumerRow) -> Result<(), DbError> {
    diesel::insert_into(consumers::table).values(row).execute(conn)?;
    Ok(())
}

/// Writes a consumer whose generation is still the one before `row`'s; false when it has moved on.
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

/// Removes a consumer without allocations; false when its generation has moved on.
pub fn delete_consumer(conn: &mut Conn, uuid: &str, generation: i64) -> Result<bool, DbError> {
    Ok(diesel::delete(consumers::table.find(uuid).filter(consumers::generation.eq(generation))).execute(conn)? == 1)
}

/// What a consumer has, by provider and class.
pub fn of_consumer(conn: &mut Conn, uuid: &str) -> Result<Vec<AllocationRow>, DbError> {
    Ok(allocations::table
        .filter(allocations::consumer_uuid.eq(uuid))
        .order((allocations::provider_uuid.asc(), allocations::resource_class.asc()))
        .load(conn)?)
}

/// The amounts taken from a provider, each amount with its consumer's generation.
pub fn of_provider(conn: &mut Conn, uuid: &str) -> Result<Vec<(AllocationRow, i64)>, DbError> {
    Ok(allocations::table
        .inner_join(consumers::table.on(consumers::uuid.eq(allocations::consumer_uuid)))
        .filter(allocations::provider_uuid.eq(uuid))
        .order((allocations::consumer_uuid.asc(), allocations::resource_class.asc()))
        .select((allocations::all_columns, consumers::generation))
        .load(conn)?)
}

/// Everything, by consumer.
pub fn all(conn: &mut Conn) -> Result<Vec<AllocationRow>, DbError> {
    Ok(allocations::table
        .order((allocations::consumer_uuid.asc(), allocations::provider_uuid.asc(), allocations::resource_class.asc()))
        .load(conn)?)
}

/// Removes all that a consumer has.
pub fn delete_of_consumer(conn: &mut Conn, uuid: &str) -> Result<(), DbError> {
    diesel::delete(allocations::table.filter(allocations::consumer_uuid.eq(uuid))).execute(conn)?;
    Ok(())
}

/// Adds one amount.
pub fn insert(conn: &mut Conn, row: &AllocationRow) -> Result<(), DbError> {
    diesel::insert_into(allocations::table).values(row).execute(conn)?;
    Ok(())
}

/// One amount of a project's consumer.
#[derive(Clone, PartialEq, Eq, Debug, Queryable)]
pub struct ProjectRow {
    pub consumer_uuid: String,
    pub user_id: String,
    pub consumer_type: String,
    pub resource_class: String,
    pub used: i64,
}

/// Every amount that consumers of a project have.
pub fn of_project(conn: &mut Conn, project: &str) -> Result<Vec<ProjectRow>, DbError> {
    Ok(allocations::table
        .inner_join(consumers::table.on(consumers::uuid.eq(allocations::consumer_uuid)))
        .filter(consumers::project_id.eq(project))
        .order((allocations::consumer_uuid.asc(), allocations::resource_class.asc()))
        .select((consumers::uuid, consumers::user_id, consumers::consumer_type, allocations::resource_class, allocations::used))
        .load(conn)?)
}
