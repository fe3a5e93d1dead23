//! The records of QoS specs, and their association with volume types.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::{volume_qos_specs, volume_types};
use crate::volume::volume_types::records::TypeRow;

/// The row of QoS specs.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_qos_specs)]
pub struct QosRow {
    pub id: String,
    pub name: String,
    /// `front-end`, `back-end` or `both`.
    pub consumer: String,
    /// A JSON object of strings.
    pub specs: String,
    pub created_at: NaiveDateTime,
}

/// Stores new specs. Conflict if the name is taken.
pub fn insert(conn: &mut Conn, new: &QosRow) -> Result<(), DbError> {
    diesel::insert_into(volume_qos_specs::table).values(new).execute(conn)?;
    Ok(())
}

/// Returns all specs, newest first.
pub fn list(conn: &mut Conn) -> Result<Vec<QosRow>, DbError> {
    let by_age = volume_qos_specs::table.order((volume_qos_specs::created_at.desc(), volume_qos_specs::id.desc()));
    Ok(by_age.select(QosRow::as_select()).load(conn)?)
}

/// Returns the specs with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<QosRow>, DbError> {
    Ok(volume_qos_specs::table.find(id).select(QosRow::as_select()).first(conn).optional()?)
}

/// Locks the row for the rest of the transaction, and returns it.
pub fn take(conn: &mut Conn, id: &str) -> Result<Option<QosRow>, DbError> {
    diesel::update(volume_qos_specs::table.find(id)).set(volume_qos_specs::id.eq(id)).execute(conn)?;
    by_id(conn, id)
}

/// Replaces the consumer and the specs.
pub fn update(conn: &mut Conn, row: &QosRow) -> Result<(), DbError> {
    let change = (volume_qos_specs::consumer.eq(&row.consumer), volume_qos_specs::specs.eq(&row.specs));
    diesel::update(volume_qos_specs::table.find(&row.id)).set(change).execute(conn)?;
    Ok(())
}

/// Deletes specs.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(volume_qos_specs::table.find(id)).execute(conn)?;
    Ok(())
}

/// Returns the types that have these specs, oldest first.
pub fn types_of(conn: &mut Conn, id: &str) -> Result<Vec<TypeRow>, DbError> {
    let of_specs = volume_types::table.filter(volume_types::qos_specs_id.eq(id)).order((volume_types::created_at, volume_types::name));
    Ok(of_specs.select(TypeRow::as_select()).load(conn)?)
}

/// Gives a type these specs, or none.
pub fn set_of_type(conn: &mut Conn, type_id: &str, id: Option<&str>) -> Result<(), DbError> {
    diesel::update(volume_types::table.find(type_id)).set(volume_types::qos_specs_id.eq(id)).execute(conn)?;
    Ok(())
}

/// Takes the specs from all types that have them.
pub fn disassociate_all(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    let of_specs = volume_types::table.filter(volume_types::qos_specs_id.eq(id));
    diesel::update(of_specs).set(volume_types::qos_specs_id.eq(None::<String>)).execute(conn)?;
    Ok(())
}
