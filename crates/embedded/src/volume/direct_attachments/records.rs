//! The records of attachments that users record through the volume API.

use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_direct_attachments;

/// A direct attachment's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = volume_direct_attachments)]
pub struct DirectAttachmentRow {
    pub id: String,
    pub volume_id: String,
    /// None if only a host is named.
    pub server_uuid: Option<String>,
    pub host: Option<String>,
    /// Empty if none is named.
    pub mountpoint: String,
    /// `rw` or `ro`.
    pub mode: String,
    /// The time of its creation until it is attached.
    pub attached_at: NaiveDateTime,
    /// `reserved`, `attaching` or `attached`.
    pub status: String,
}

/// Stores a new attachment.
pub fn insert(conn: &mut Conn, attachment: &DirectAttachmentRow) -> Result<(), DbError> {
    diesel::insert_into(volume_direct_attachments::table).values(attachment).execute(conn)?;
    Ok(())
}

/// Stores what has changed of an attachment.
pub fn update(conn: &mut Conn, attachment: &DirectAttachmentRow) -> Result<(), DbError> {
    diesel::update(volume_direct_attachments::table.find(&attachment.id)).set(attachment).execute(conn)?;
    Ok(())
}

/// Returns the attachment with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<DirectAttachmentRow>, DbError> {
    Ok(volume_direct_attachments::table.find(id).select(DirectAttachmentRow::as_select()).first(conn).optional()?)
}

/// Returns a volume's attachments, oldest first.
pub fn of_volume(conn: &mut Conn, volume_id: &str) -> Result<Vec<DirectAttachmentRow>, DbError> {
    let of_volume = volume_direct_attachments::table.filter(volume_direct_attachments::volume_id.eq(volume_id));
    let by_age = of_volume.order((volume_direct_attachments::attached_at, volume_direct_attachments::id));
    Ok(by_age.select(DirectAttachmentRow::as_select()).load(conn)?)
}

/// Returns all attachments, oldest first.
pub fn all(conn: &mut Conn) -> Result<Vec<DirectAttachmentRow>, DbError> {
    let by_age = volume_direct_attachments::table.order((volume_direct_attachments::attached_at, volume_direct_attachments::id));
    Ok(by_age.select(DirectAttachmentRow::as_select()).load(conn)?)
}

/// Deletes an attachment.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(volume_direct_attachments::table.find(id)).execute(conn)?;
    Ok(())
}
