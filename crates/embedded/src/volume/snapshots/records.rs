//! The records of volumes' snapshots.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volume_snapshots;
use crate::volume::volumes::records::{Gigabytes, Origin};

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
    /// The progress that was told, such as `80%`; none if the status says it.
    pub progress: Option<String>,
}

impl SnapshotRow {
    /// Returns the origin of the bytes.
    pub fn origin(&self) -> Origin {
        Origin { bootable: self.bootable, image_id: self.image_id.clone(), image_metadata: self.image_metadata.clone() }
    }
}

/// Stores a new snapshot, which takes a place and its GiB.
pub fn insert(conn: &mut Conn, _: QuotaGrant<SnapshotRow>, _: QuotaGrant<Gigabytes>, snapshot: &SnapshotRow) -> Result<(), DbError> {
    diesel::insert_into(volume_snapshots::table).values(snapshot).execute(conn)?;
    Ok(())
}

/// Returns the snapshot with this id, if any.
pub fn by_id(conn: &mut Conn, id: &str) -> Result<Option<SnapshotRow>, DbError> {
    Ok(volume_snapshots::table.find(id).select(SnapshotRow::as_select()).first(conn).optional()?)
}

/// Locks the snapshot's row for the rest of the transaction, and returns it.
pub fn take(conn: &mut Conn, id: &str, now: NaiveDateTime) -> Result<Option<SnapshotRow>, DbError> {
    diesel::update(volume_snapshots::table.find(id)).set(volume_snapshots::updated_at.eq(now)).execute(conn)?;
    by_id(conn, id)
}

/// Returns the snapshots of a project, or all, newest first.
pub fn list(conn: &mut Conn, project_id: Option<&str>) -> Result<Vec<SnapshotRow>, DbError> {
    let mut statement = volume_snapshots::table.select(SnapshotRow::as_select()).into_boxed();
    if let Some(project_id) = project_id {
        statement = statement.filter(volume_snapshots::project_id.eq(project_id.to_owned()));
    }
    Ok(statement.order((volume_snapshots::created_at.desc(), volume_snapshots::id.desc())).load(conn)?)
}

/// Returns a volume's snapshots, newest first.
pub fn of_volume(conn: &mut Conn, volume_id: &str) -> Result<Vec<SnapshotRow>, DbError> {
    let of_volume = volume_snapshots::table.filter(volume_snapshots::volume_id.eq(volume_id));
    let newest_first = of_volume.order((volume_snapshots::created_at.desc(), volume_snapshots::id.desc()));
    Ok(newest_first.select(SnapshotRow::as_select()).load(conn)?)
}

/// Replaces the fields that a user may change.
pub fn update(conn: &mut Conn, snapshot: &SnapshotRow) -> Result<(), DbError> {
    diesel::update(volume_snapshots::table.find(&snapshot.id))
        .set((
            volume_snapshots::name.eq(&snapshot.name),
            volume_snapshots::description.eq(&snapshot.description),
            volume_snapshots::metadata.eq(&snapshot.metadata),
        ))
        .execute(conn)?;
    Ok(())
}

/// Moves a snapshot from one of the statuses `from` to `to`. False if its status is not in `from`, or the snapshot is gone.
pub fn set_status(conn: &mut Conn, id: &str, from: &[&str], to: &str, now: NaiveDateTime) -> Result<bool, DbError> {
    let changed = diesel::update(volume_snapshots::table.find(id).filter(volume_snapshots::status.eq_any(from.to_vec())))
        .set((volume_snapshots::status.eq(to), volume_snapshots::updated_at.eq(now)))
        .execute(conn)?;
    Ok(changed > 0)
}

/// Sets the status for an operator.
pub fn force_status(conn: &mut Conn, id: &str, to: &str, now: NaiveDateTime) -> Result<(), DbError> {
    let change = (volume_snapshots::status.eq(to), volume_snapshots::updated_at.eq(now));
    diesel::update(volume_snapshots::table.find(id)).set(change).execute(conn)?;
    Ok(())
}

/// Sets the status and the progress that a driver of the snapshot tells. No progress leaves the one that was told.
pub fn set_told(conn: &mut Conn, id: &str, status: &str, progress: Option<&str>, now: NaiveDateTime) -> Result<(), DbError> {
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

/// Returns the snapshots whose bytes were written.
pub fn made(conn: &mut Conn) -> Result<Vec<SnapshotRow>, DbError> {
    let written = volume_snapshots::table.filter(volume_snapshots::made_size.is_not_null());
    Ok(written.order(volume_snapshots::id).select(SnapshotRow::as_select()).load(conn)?)
}

/// Deletes a snapshot.
pub fn delete(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    diesel::delete(volume_snapshots::table.find(id)).execute(conn)?;
    Ok(())
}
