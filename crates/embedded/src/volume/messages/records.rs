//! The records of messages to users.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_messages;
use crate::volume::statements;

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

statements::owned_by_projects!(volume_messages, MessageRow);

/// Stores a new message.
pub fn insert(conn: &mut Conn, message: &MessageRow) -> Result<(), DbError> {
    diesel::insert_into(volume_messages::table).values(message).execute(conn)?;
    Ok(())
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
