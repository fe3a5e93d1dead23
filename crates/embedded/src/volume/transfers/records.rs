//! The records of volume transfers: offers of volumes to other projects.

use cellshift_domain::quota_grant::QuotaGrant;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::volume::schema::{volume_snapshots, volume_transfers, volumes};
use crate::volume::snapshots::records::SnapshotRow;
use crate::volume::statements;
use crate::volume::volumes::records::{Gigabytes, VolumeRow};

/// A transfer's row.
#[derive(Clone, PartialEq, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = volume_transfers)]
pub struct TransferRow {
    pub id: String,
    pub volume_id: String,
    pub name: Option<String>,
    /// The project that offers the volume.
    pub project_id: String,
    /// The SHA-256, in hex, of the key that the taker must know.
    pub key_sha256: String,
    /// The volume's snapshots stay with the project.
    pub no_snapshots: bool,
    pub created_at: NaiveDateTime,
}

statements::owned_by_projects!(volume_transfers, TransferRow);

/// Stores a new transfer. Conflict if the volume has one.
pub fn insert(conn: &mut Conn, transfer: &TransferRow) -> Result<(), DbError> {
    diesel::insert_into(volume_transfers::table).values(transfer).execute(conn)?;
    Ok(())
}

/// Deletes a transfer. False if there is none.
pub fn delete(conn: &mut Conn, id: &str) -> Result<bool, DbError> {
    Ok(diesel::delete(volume_transfers::table.find(id)).execute(conn)? > 0)
}

/// Deletes the transfer of a volume, if any.
pub fn delete_of_volume(conn: &mut Conn, volume_id: &str) -> Result<(), DbError> {
    diesel::delete(volume_transfers::table.filter(volume_transfers::volume_id.eq(volume_id))).execute(conn)?;
    Ok(())
}

/// Gives a volume, which takes a place and its GiB there, to a project.
pub fn give(
    conn: &mut Conn,
    _: QuotaGrant<VolumeRow>,
    _: QuotaGrant<Gigabytes>,
    volume_id: &str,
    project_id: &str,
    user_id: &str,
) -> Result<(), DbError> {
    let owner = (volumes::project_id.eq(project_id), volumes::user_id.eq(user_id));
    diesel::update(volumes::table.find(volume_id)).set(owner).execute(conn)?;
    Ok(())
}

/// Gives the snapshots of a volume, which count like the volume, to a project.
pub fn give_snapshots(
    conn: &mut Conn,
    _: QuotaGrant<SnapshotRow>,
    volume_id: &str,
    project_id: &str,
    user_id: &str,
) -> Result<(), DbError> {
    let owner = (volume_snapshots::project_id.eq(project_id), volume_snapshots::user_id.eq(user_id));
    diesel::update(volume_snapshots::table.filter(volume_snapshots::volume_id.eq(volume_id))).set(owner).execute(conn)?;
    Ok(())
}
