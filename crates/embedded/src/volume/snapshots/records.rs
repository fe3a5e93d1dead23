//! The records of volumes' snapshots.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_snapshots;
use crate::volume::statements;
use crate::volume::volumes::records::Gigabytes;

/// A snapshot's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_snapshots)]
pub struct SnapshotRow {
    pub id: String,
    pub volume_id: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: String,
    pub user_id: String,
    pub status: String,
    /// The size of the volume when the snapshot was asked for.
    pub size_gb: i32,
    pub bootable: bool,
    pub image_id: Option<String>,
    /// A JSON object of strings.
    pub image_metadata: Option<String>,
    /// A JSON object of strings.
    pub metadata: String,
    pub created_at: NaiveDateTime,
    /// The moment of the last change; `created_at` if nothing has changed.
    pub updated_at: NaiveDateTime,
    /// The number of bytes in the snapshot's file, and their SHA-256 in hex; none until they are written.
    pub made_size: Option<i64>,
    pub made_sha256: Option<String>,
    /// The reported progress, such as `80%`; none if the status says it.
    pub progress: Option<String>,
}

statements::copies!(volume_snapshots, SnapshotRow);

/// Stores a new snapshot, which takes a place and its GiB.
pub fn insert(conn: &mut Conn, _: QuotaGrant<SnapshotRow>, _: QuotaGrant<Gigabytes>, snapshot: &SnapshotRow) -> Result<(), DbError> {
    diesel::insert_into(volume_snapshots::table).values(snapshot).execute(conn)?;
    Ok(())
}

/// Returns a volume's snapshots, newest first.
pub fn of_volume(conn: &mut Conn, volume_id: &str) -> Result<Vec<SnapshotRow>, DbError> {
    let of_volume = volume_snapshots::table.filter(volume_snapshots::volume_id.eq(volume_id));
    let newest_first = of_volume.order((volume_snapshots::created_at.desc(), volume_snapshots::id.desc()));
    Ok(newest_first.select(SnapshotRow::as_select()).load(conn)?)
}

/// Sets the status and the progress that a driver of the snapshot reports. Without a progress the last reported one stays.
pub fn set_reported_status(conn: &mut Conn, id: &str, status: &str, progress: Option<&str>, now: NaiveDateTime) -> Result<(), DbError> {
    force_status(conn, id, status, now)?;
    if progress.is_some() {
        diesel::update(volume_snapshots::table.find(id)).set(volume_snapshots::progress.eq(progress)).execute(conn)?;
    }
    Ok(())
}

/// Records the bytes that were written, with which the snapshot is complete.
pub fn set_made(conn: &mut Conn, id: &str, size: i64, sha256: &str) -> Result<(), DbError> {
    let written = (volume_snapshots::made_size.eq(size), volume_snapshots::made_sha256.eq(sha256));
    let complete = volume_snapshots::progress.eq(None::<String>);
    diesel::update(volume_snapshots::table.find(id)).set((written, complete)).execute(conn)?;
    Ok(())
}
