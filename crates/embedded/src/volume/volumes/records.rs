//! The records of volumes.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::volumes;
use crate::volume::statements;

/// A volume's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volumes)]
pub struct VolumeRow {
    pub id: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: String,
    pub user_id: String,
    pub status: String,
    pub size_gb: i32,
    pub bootable: bool,
    pub multiattach: bool,
    pub availability_zone: String,
    pub volume_type: Option<String>,
    pub image_id: Option<String>,
    /// A JSON object of strings.
    pub metadata: String,
    pub created_at: NaiveDateTime,
    /// The moment of the last change; `created_at` if nothing has changed.
    pub updated_at: NaiveDateTime,
    /// A JSON object of strings, which describes the image whose bytes the volume has.
    pub image_metadata: Option<String>,
    /// The snapshot whose bytes filled the volume.
    pub snapshot_id: Option<String>,
    /// The volume whose bytes filled the volume.
    pub source_volid: Option<String>,
    /// True if the volume is attached for reading only. None until somebody sets the flag or records an attachment.
    pub readonly: Option<bool>,
    /// The status that an administrator has set.
    pub migration_status: Option<String>,
}

statements::with_status!(volumes, VolumeRow);

/// The origin of a volume's or snapshot's bytes, as far as servers boot from them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Origin {
    pub bootable: bool,
    /// The image that the bytes come from, at first or second hand.
    pub image_id: Option<String>,
    /// A JSON object of strings, which describes that image.
    pub image_metadata: Option<String>,
}

/// The record of a volume's initial bytes.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable)]
#[diesel(table_name = volumes)]
pub struct MadeVolume {
    pub id: String,
    pub size_gb: i32,
    /// The number of bytes that the service wrote when it made the volume, and their SHA-256 in hex. None in a record of an older release.
    pub made_size: Option<i64>,
    pub made_sha256: Option<String>,
}

/// Records the bytes that were written when a volume was made.
pub fn set_made(conn: &mut Conn, id: &str, size: i64, sha256: &str) -> Result<(), DbError> {
    diesel::update(volumes::table.find(id)).set((volumes::made_size.eq(size), volumes::made_sha256.eq(sha256))).execute(conn)?;
    Ok(())
}

/// Clears the record of a volume's initial bytes, because they are being replaced.
pub fn forget_made(conn: &mut Conn, id: &str) -> Result<(), DbError> {
    let nothing = (volumes::made_size.eq(None::<i64>), volumes::made_sha256.eq(None::<String>));
    diesel::update(volumes::table.find(id)).set(nothing).execute(conn)?;
    Ok(())
}

/// Stores the origin of the bytes that fill a volume.
pub fn set_origin(conn: &mut Conn, id: &str, origin: &Origin) -> Result<(), DbError> {
    let Origin { bootable, image_id, image_metadata } = origin;
    let change = (volumes::bootable.eq(bootable), volumes::image_id.eq(image_id), volumes::image_metadata.eq(image_metadata));
    diesel::update(volumes::table.find(id)).set(change).execute(conn)?;
    Ok(())
}

/// Returns the volumes whose bytes were made. In records of an older release the status must not be `error`.
pub fn made(conn: &mut Conn) -> Result<Vec<MadeVolume>, DbError> {
    let whole = volumes::made_size.is_not_null().or(volumes::status.ne_all(["creating", "error"]));
    let statement = volumes::table.filter(whole.and(volumes::status.ne("creating"))).order(volumes::id);
    Ok(statement.select(MadeVolume::as_select()).load(conn)?)
}

/// The GiB of volumes, which count against a quota of their own.
pub enum Gigabytes {}

/// Stores a new volume, which takes a place and its GiB.
pub fn insert(conn: &mut Conn, _: QuotaGrant<VolumeRow>, _: QuotaGrant<Gigabytes>, volume: &VolumeRow) -> Result<(), DbError> {
    diesel::insert_into(volumes::table).values(volume).execute(conn)?;
    Ok(())
}

/// Returns the volume with this id. NotFound if there is none.
pub fn find(conn: &mut Conn, id: &str) -> Result<VolumeRow, DbError> {
    by_id(conn, id)?.ok_or_else(|| DbError::NotFound(format!("volume {id}")))
}

/// Sets whether the volume is attached for reading only.
pub fn set_readonly(conn: &mut Conn, id: &str, readonly: bool) -> Result<(), DbError> {
    diesel::update(volumes::table.find(id)).set(volumes::readonly.eq(readonly)).execute(conn)?;
    Ok(())
}

/// Sets the status of a volume's migration for an operator, or clears it.
pub fn set_migration_status(conn: &mut Conn, id: &str, status: Option<&str>) -> Result<(), DbError> {
    diesel::update(volumes::table.find(id)).set(volumes::migration_status.eq(status)).execute(conn)?;
    Ok(())
}

/// Sets a volume's type.
pub fn set_type(conn: &mut Conn, id: &str, name: &str, multiattach: bool) -> Result<(), DbError> {
    let change = (volumes::volume_type.eq(name), volumes::multiattach.eq(multiattach));
    diesel::update(volumes::table.find(id)).set(change).execute(conn)?;
    Ok(())
}

/// Enlarges a volume by the granted GiB.
pub fn enlarge(conn: &mut Conn, _: QuotaGrant<Gigabytes>, id: &str, size_gb: i32) -> Result<(), DbError> {
    diesel::update(volumes::table.find(id)).set(volumes::size_gb.eq(size_gb)).execute(conn)?;
    Ok(())
}

/// Replaces the fields that a user may change. [`set_status`] changes the status, and [`enlarge`] the size.
pub fn update(conn: &mut Conn, volume: &VolumeRow) -> Result<(), DbError> {
    let changed = diesel::update(volumes::table.find(&volume.id))
        .set((
            volumes::name.eq(&volume.name),
            volumes::description.eq(&volume.description),
            volumes::bootable.eq(volume.bootable),
            volumes::metadata.eq(&volume.metadata),
            volumes::updated_at.eq(volume.updated_at),
        ))
        .execute(conn)?;
    if changed == 0 { Err(DbError::NotFound(format!("volume {}", volume.id))) } else { Ok(()) }
}

/// Deletes a volume. False if there is none.
pub fn delete(conn: &mut Conn, id: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(volumes::table.find(id)).execute(conn)? > 0)
}
