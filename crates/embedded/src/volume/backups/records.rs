//! The records of volumes' backups.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_backups;
use crate::volume::statements;
use crate::volume::volumes::records::Origin;

/// A backup's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_backups)]
pub struct BackupRow {
    pub id: String,
    /// The volume, which may be gone.
    pub volume_id: String,
    /// The snapshot whose bytes the backup has; none if it has the volume's.
    pub snapshot_id: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub container: String,
    pub project_id: String,
    pub user_id: String,
    pub status: String,
    pub fail_reason: Option<String>,
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
    /// The number of bytes in the backup's file, and their SHA-256 in hex; none until they are written.
    pub made_size: Option<i64>,
    pub made_sha256: Option<String>,
    pub volume_name: Option<String>,
    pub volume_description: Option<String>,
    /// A JSON object of strings; none in a backup of an earlier release, which knows nothing of its volume.
    pub volume_metadata: Option<String>,
}

statements::copies!(volume_backups, BackupRow);

/// The GiB of backups, which count against a quota of their own.
pub enum BackupGigabytes {}

/// Stores a new backup, which takes a place and its GiB.
pub fn insert(conn: &mut Conn, _: QuotaGrant<BackupRow>, _: QuotaGrant<BackupGigabytes>, backup: &BackupRow) -> Result<(), DbError> {
    diesel::insert_into(volume_backups::table).values(backup).execute(conn)?;
    Ok(())
}

/// Says why a backup could not be made.
pub fn set_fail_reason(conn: &mut Conn, id: &str, reason: &str) -> Result<(), DbError> {
    diesel::update(volume_backups::table.find(id)).set(volume_backups::fail_reason.eq(reason)).execute(conn)?;
    Ok(())
}

/// Records the bytes that were written, and their origin.
pub fn set_made(conn: &mut Conn, id: &str, size: i64, sha256: &str, origin: &Origin) -> Result<(), DbError> {
    let Origin { bootable, image_id, image_metadata } = origin;
    let written = (volume_backups::made_size.eq(size), volume_backups::made_sha256.eq(sha256));
    let origin =
        (volume_backups::bootable.eq(bootable), volume_backups::image_id.eq(image_id), volume_backups::image_metadata.eq(image_metadata));
    diesel::update(volume_backups::table.find(id)).set((written, origin)).execute(conn)?;
    Ok(())
}
