//! Snapshots of volumes. A snapshot is a whole copy, so nothing that is made from it depends on it later.

mod bodies;
pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use uuid::Uuid;

use self::records::SnapshotRow;
use crate::ServiceError;
use crate::bytes_on_disk;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::filling::Filling;
use crate::volume::rules::{change_texts, check_reset, may_use, read_all};
use crate::volume::volumes::no_volume;
use crate::volume::{EmbeddedVolume, NewSnapshot, SERVICE, Snapshot, VolumeService, quotas, rows};

/// A change of a snapshot. `None` leaves a field unchanged; `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct SnapshotUpdate {
    pub name: Option<Option<String>>,
    pub description: Option<Option<String>>,
}

/// The statuses that an administrator may set.
const RESETTABLE: [&str; 5] = ["available", "creating", "deleting", "error", "error_deleting"];

impl EmbeddedVolume {
    /// Stores a user's snapshot as `creating`. [`EmbeddedVolume::fill_snapshot`] copies the bytes.
    pub async fn new_snapshot(&self, new: NewSnapshot) -> Result<Snapshot, ServiceError> {
        let id = new.id;
        self.record_snapshot(None, new).await?;
        self.snapshot(id).await
    }

    /// Copies the bytes of a `creating` snapshot and sets it available, or sets it to `error`.
    pub async fn fill_snapshot(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        let result = self.copy_into(fence, id).await;
        if let Err(error) = &result {
            let (key, now) = (id.to_string(), self.env.now().naive_utc());
            let noted = self.write(fence, move |conn| Ok(records::set_status(conn, &key, &["creating"], "error", now)?)).await;
            log::warn!(snapshot:% = id; "a snapshot could not be taken: {error}; noting it: {:?}", noted.err());
        }
        result
    }

    /// Returns the snapshot if the caller's project owns it or the caller is an administrator.
    pub async fn own_snapshot(&self, caller: &RequestContext, id: Uuid) -> Result<Snapshot, ServiceError> {
        let snapshot = self.snapshot(id).await?;
        if may_use(caller, &snapshot.project_id) { Ok(snapshot) } else { Err(no_snapshot(id)) }
    }

    /// Returns the snapshots of a project, or all, newest first.
    pub async fn list_snapshots(&self, project: Option<&str>) -> Result<Vec<Snapshot>, ServiceError> {
        let project = project.map(str::to_owned);
        self.read(move |conn| read_all(records::list(conn, project.as_deref())?, from_row)).await
    }

    /// Changes one of the caller's snapshots.
    pub async fn update_snapshot(&self, caller: &RequestContext, id: Uuid, update: SnapshotUpdate) -> Result<Snapshot, ServiceError> {
        self.change_snapshot(caller, id, move |row| {
            row.name = update.name.unwrap_or(row.name.take());
            row.description = update.description.unwrap_or(row.description.take());
            Ok(())
        })
        .await
    }

    /// Changes a snapshot's metadata, in one transaction.
    pub async fn change_snapshot_metadata<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Snapshot, ServiceError>
    where
        F: FnOnce(&mut BTreeMap<String, String>) -> Result<(), ServiceError> + Send + 'static,
    {
        self.change_snapshot(caller, id, move |row| change_texts(&mut row.metadata, change)).await
    }

    /// Sets the status for an operator, after an accident.
    pub async fn reset_snapshot_status(&self, id: Uuid, status: &str) -> Result<(), ServiceError> {
        check_reset(status, &RESETTABLE)?;
        let (status, now) = (status.to_owned(), self.env.now().naive_utc());
        self.write(None, move |conn| Ok(records::force_status(conn, &id.to_string(), &status, now)?)).await
    }

    /// Sets the status and the progress of one of the caller's snapshots that is being made or deleted. Conflict for any other snapshot or
    /// status, and for a snapshot without bytes, which cannot be available.
    pub async fn tell_snapshot_status(
        &self,
        caller: &RequestContext,
        id: Uuid,
        status: &str,
        progress: Option<String>,
    ) -> Result<(), ServiceError> {
        let (caller, status, now) = (caller.clone(), status.to_owned(), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let row = records::take_own(conn, &caller, id, now, no_snapshot)?;
            let allowed: &[&str] = match row.status.as_str() {
                "creating" => &["creating", "available", "error"],
                "deleting" => &["deleting", "error_deleting"],
                other => {
                    let why = format!("Snapshot status {other} not allowed for update_snapshot_status");
                    return Err(ServiceError::Conflict(Reason::public(why)).into());
                }
            };
            if !allowed.contains(&status.as_str()) {
                let why = format!("Provided snapshot status {status} not allowed for snapshot with status {}.", row.status);
                return Err(ServiceError::Conflict(Reason::public(why)).into());
            }
            if status == "available" && row.made_size.is_none() {
                return Err(ServiceError::Conflict(reason!("Snapshot {id} has no bytes yet, so it cannot be available.")).into());
            }
            Ok(records::set_reported_status(conn, &row.id, &status, progress.as_deref(), now)?)
        })
        .await
    }

    /// Deletes one of the caller's snapshots. Conflict unless it is available or in error (or `force`).
    pub async fn delete_own_snapshot(&self, caller: &RequestContext, id: Uuid, force: bool) -> Result<(), ServiceError> {
        let snapshot = self.own_snapshot(caller, id).await?;
        if !force && !["available", "error", "error_deleting"].contains(&snapshot.status.as_str()) {
            let message = format!("Invalid snapshot: Snapshot status must be available or error, but it is {}.", snapshot.status);
            return Err(ServiceError::Conflict(Reason::public(message)));
        }
        self.remove_snapshot(None, id).await
    }

    /// Deletes the snapshots of one of the caller's volumes.
    pub(super) async fn delete_snapshots_of(&self, volume: Uuid) -> Result<(), ServiceError> {
        let ids = self.read(move |conn| {
            let rows = records::of_volume(conn, &volume.to_string())?;
            Ok(rows.iter().map(|row| read_id("volume_snapshots.id", &row.id)).collect::<Result<Vec<_>, DbError>>()?)
        });
        for id in ids.await? {
            self.remove_snapshot(None, id).await?;
        }
        Ok(())
    }

    pub(super) async fn has_snapshots(&self, volume: Uuid) -> Result<bool, ServiceError> {
        self.read(move |conn| Ok(!records::of_volume(conn, &volume.to_string())?.is_empty())).await
    }

    /// Stores the record as `creating`. False if the snapshot is taken already.
    pub(super) async fn record_snapshot(&self, fence: Option<Fence>, new: NewSnapshot) -> Result<bool, ServiceError> {
        let now = self.env.now().naive_utc();
        let metadata = serde_json::to_string(&new.metadata).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
        self.write(fence, move |conn| {
            let (key, volume) = (new.id.to_string(), new.volume);
            if let Some(earlier) = records::by_id(conn, &key)? {
                // A failed or interrupted copy starts again.
                return Ok(earlier.status == "creating" || records::set_status(conn, &key, &["error"], "creating", now)?);
            }
            let row = rows::take_own(conn, &new.caller, volume, now, no_volume)?;
            let allowed: &[&str] = if new.force { &["available", "in-use"] } else { &["available"] };
            if !allowed.contains(&row.status.as_str()) {
                let statuses = allowed.join(" or ");
                let message = format!("Invalid volume: Volume {volume} status must be {statuses}, but current status is: {}.", row.status);
                return Err(ServiceError::Conflict(Reason::public(message)).into());
            }
            let (place, gigabytes) = quotas::take_snapshot(conn, &row.project_id, row.size_gb, row.volume_type.as_deref())?;
            let snapshot = SnapshotRow {
                id: key,
                volume_id: row.id,
                name: new.name,
                description: new.description,
                project_id: row.project_id,
                user_id: new.caller.user_id,
                status: "creating".into(),
                size_gb: row.size_gb,
                bootable: row.bootable,
                image_id: row.image_id,
                image_metadata: row.image_metadata,
                metadata,
                created_at: now,
                updated_at: now,
                made_size: None,
                made_sha256: None,
                progress: None,
            };
            records::insert(conn, place, gigabytes, &snapshot)?;
            Ok(true)
        })
        .await
    }

    /// Fills a snapshot that is not available yet. A failed or interrupted copy starts again.
    pub(super) async fn fill_unless_filled(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        if self.snapshot(id).await?.status == "available" {
            return Ok(());
        }
        let (key, now) = (id.to_string(), self.env.now().naive_utc());
        self.write(Some(fence), move |conn| Ok(records::set_status(conn, &key, &["error"], "creating", now)?)).await?;
        self.fill_snapshot(Some(fence), id).await
    }

    async fn copy_into(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        let snapshot = self.snapshot(id).await?;
        let Filling { unplaced, .. } = self.filling_of_volume(snapshot.volume_id, snapshot.size_gb).await?;
        let (path, now) = (self.path(id), self.env.now().naive_utc());
        self.write(fence, move |conn| {
            let key = id.to_string();
            if !records::set_status(conn, &key, &["creating"], "available", now)? {
                // An earlier attempt of the same operation may have ended meanwhile.
                return match records::by_id(conn, &key)?.is_some_and(|row| row.status == "available") {
                    true => Ok(()),
                    false => Err(ServiceError::Conflict(reason!("Snapshot {id} was given up while it was taken.")).into()),
                };
            }
            records::set_made(conn, &key, unplaced.size, &unplaced.sha256)?;
            // Inside the transaction, under the row's lock: nobody uses the file before the commit.
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }

    pub(super) async fn remove_snapshot(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        self.delete_with_file(fence, id, move |conn| Ok(records::delete(conn, &id.to_string())?)).await
    }

    async fn change_snapshot<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Snapshot, ServiceError>
    where
        F: FnOnce(&mut SnapshotRow) -> Result<(), TransactionError> + Send + 'static,
    {
        let (now, caller) = (self.env.now().naive_utc(), caller.clone());
        self.write(None, move |conn| {
            let mut row = records::take_own(conn, &caller, id, now, no_snapshot)?;
            change(&mut row)?;
            records::update(conn, &row)?;
            Ok(from_row(row)?)
        })
        .await
    }
}

/// Sets interrupted snapshots to `error`, and returns the names of the files of the others.
pub(super) fn give_up_unfinished(conn: &mut Conn, now: NaiveDateTime) -> Result<Vec<String>, DbError> {
    let (unfinished, finished): (Vec<SnapshotRow>, Vec<SnapshotRow>) =
        records::list(conn, None)?.into_iter().partition(|snapshot| snapshot.status == "creating");
    for snapshot in unfinished {
        records::set_status(conn, &snapshot.id, &["creating"], "error", now)?;
    }
    Ok(finished.into_iter().map(|snapshot| snapshot.id).collect())
}

/// Refuses snapshots of these volumes of one project that would exceed its quota.
pub(super) fn check_room(conn: &mut Conn, volumes: &[Uuid]) -> Result<(), TransactionError> {
    let volume_rows = volumes.iter().map(|volume| rows::by_id(conn, &volume.to_string())).collect::<Result<Vec<_>, _>>()?;
    let volume_rows: Vec<_> = volume_rows.into_iter().flatten().collect();
    volume_rows.first().map_or(Ok(()), |first| quotas::take_snapshots(conn, &first.project_id, &volume_rows).map(drop))
}

/// Refuses to delete a volume that has snapshots.
pub(super) fn none_of(conn: &mut Conn, volume: Uuid) -> Result<(), TransactionError> {
    match records::of_volume(conn, &volume.to_string())?.is_empty() {
        true => Ok(()),
        false => Err(ServiceError::Conflict(reason!("Invalid volume: volume {volume} has snapshots.")).into()),
    }
}

pub(super) fn no_snapshot(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("Snapshot {id} could not be found."))
}

pub(super) fn load_snapshot(conn: &mut Conn, id: Uuid) -> Result<Snapshot, TransactionError> {
    let row = records::by_id(conn, &id.to_string())?.ok_or_else(|| no_snapshot(id))?;
    Ok(from_row(row)?)
}

fn from_row(row: SnapshotRow) -> Result<Snapshot, DbError> {
    Ok(Snapshot {
        id: read_id("volume_snapshots.id", &row.id)?,
        volume_id: read_id("volume_snapshots.volume_id", &row.volume_id)?,
        name: row.name,
        description: row.description,
        project_id: row.project_id,
        user_id: row.user_id,
        status: row.status,
        progress: row.progress,
        size_gb: row.size_gb,
        bootable: row.bootable,
        image_metadata: row.image_metadata.as_deref().map(serde_json::from_str).transpose()?.unwrap_or_default(),
        metadata: serde_json::from_str(&row.metadata)?,
        created_at: row.created_at.and_utc(),
        updated_at: Some(row.updated_at.and_utc()).filter(|_| row.updated_at != row.created_at),
    })
}
