//! The records of attachments that the compute service makes.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_attachments;

/// An attachment's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = volume_attachments, treat_none_as_null = true)]
pub struct AttachmentRow {
    pub id: String,
    pub volume_id: String,
    pub server_uuid: String,
    pub host: Option<String>,
    pub status: String,
    pub mountpoint: Option<String>,
    /// JSON.
    pub connection_info: String,
    pub created_at: NaiveDateTime,
    pub attached_at: Option<NaiveDateTime>,
}

/// Stores a new attachment.
pub fn insert(conn: &mut Conn, attachment: &AttachmentRow) -> Result<(), DbError> {
    diesel::insert_into(volume_attachments::table).values(attachment).execute(conn)?;
    Ok(())
}

/// Returns the attachment with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<AttachmentRow>, DbError> {
    Ok(volume_attachments::table.find(id).select(AttachmentRow::as_select()).first(conn).optional()?)
}

/// Saves a changed attachment.
pub fn update(conn: &mut Conn, attachment: &AttachmentRow) -> Result<(), DbError> {
    diesel::update(volume_attachments::table.find(&attachment.id)).set(attachment).execute(conn)?;
    Ok(())
}

/// Deletes an attachment. False if there is none.
pub fn delete(conn: &mut Conn, id: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(volume_attachments::table.find(id)).execute(conn)? > 0)
}

/// Returns a volume's attachments, oldest first.
pub fn of_volume(conn: &mut Conn, volume_id: &str) -> Result<Vec<AttachmentRow>, DbError> {
    let of_volume = volume_attachments::table.filter(volume_attachments::volume_id.eq(volume_id));
    Ok(of_volume.order((volume_attachments::created_at, volume_attachments::id)).select(AttachmentRow::as_select()).load(conn)?)
}

/// Returns a server's attachments, oldest first.
pub fn of_server(conn: &mut Conn, server: &str) -> Result<Vec<AttachmentRow>, DbError> {
    let of_server = volume_attachments::table.filter(volume_attachments::server_uuid.eq(server));
    Ok(of_server.order((volume_attachments::created_at, volume_attachments::id)).select(AttachmentRow::as_select()).load(conn)?)
}

/// Returns all attachments, oldest first.
pub fn all(conn: &mut Conn) -> Result<Vec<AttachmentRow>, DbError> {
    let all = volume_attachments::table.order((volume_attachments::created_at, volume_attachments::id));
    Ok(all.select(AttachmentRow::as_select()).load(conn)?)
}
