//! The records of messages to users.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_messages;

/// The row of a message: no backend could make this volume.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_messages)]
pub struct MessageRow {
    pub id: String,
    pub project_id: String,
    pub request_id: String,
    pub volume_id: String,
    pub created_at: NaiveDateTime,
}

/// Stores a new message.
pub fn insert(conn: &mut Conn, message: &MessageRow) -> Result<(), DbError> {
    diesel::insert_into(volume_messages::table).values(message).execute(conn)?;
    Ok(())
}

/// Returns the messages to a project, or all, newest first.
pub fn list(conn: &mut Conn, project_id: Option<&str>) -> Result<Vec<MessageRow>, DbError> {
    let mut statement = volume_messages::table.select(MessageRow::as_select()).into_boxed();
    if let Some(project_id) = project_id {
        statement = statement.filter(volume_messages::project_id.eq(project_id.to_owned()));
    }
    Ok(statement.order((volume_messages::created_at.desc(), volume_messages::id.desc())).load(conn)?)
}

/// Returns the message with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<MessageRow>, DbError> {
    Ok(volume_messages::table.find(id).select(MessageRow::as_select()).first(conn).optional()?)
}

/// Deletes a message.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(volume_messages::table.find(id)).execute(conn)?;
    Ok(())
}

/// Deletes the messages that are older.
pub fn delete_before(conn: &mut Conn, time: NaiveDateTime) -> Result<(), DbError> {
    diesel::delete(volume_messages::table.filter(volume_messages::created_at.lt(time))).execute(conn)?;
    Ok(())
}
