//! Backups of volumes: whole copies of their bytes that outlive them, and the way back into a volume.

pub(super) mod records;
pub(super) mod routes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use uuid::Uuid;

use self::records::BackupRow;
use crate::ServiceError;
use crate::bytes_on_disk::{self, GivenUp};
use crate::records::read_id;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::attachments::refuse_attached;
use crate::volume::filling::Filling;
use crate::volume::volumes::no_volume;
use crate::volume::volumes::records::MadeVolume;
use crate::volume::{EmbeddedVolume, NewVolume, SERVICE, Volume, VolumeService, VolumeSource, quotas, rows};

/// The status of a volume whose bytes a backup is replacing.
const RESTORING_VOLUME: &str = "restoring-backup";
/// The status of a volume that got only a part of a backup, or nothing.
const FAILED_VOLUME: &str = "error_restoring";
/// The statuses that an administrator may set.
const RESETTABLE: [&str; 2] = ["available", "error"];

/// A backup.
#[derive(Clone, PartialEq, Debug)]
pub struct Backup {
    pub id: Uuid,
    /// The volume, which may be gone.
    pub volume_id: Uuid,
    pub snapshot_id: Option<Uuid>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub container: String,
    pub project_id: String,
    pub user_id: String,
    /// `creating`, `available`, `restoring` or `error`.
    pub status: String,
    pub fail_reason: Option<String>,
    pub size_gb: i32,
    pub metadata: BTreeMap<String, String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// None before the first change.
    pub updated_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// A backup to make.
#[derive(Clone, PartialEq, Debug)]
pub struct NewBackup {
    pub id: Uuid,
    pub volume: Uuid,
    /// The snapshot of the volume to copy; none for the volume as it is.
    pub snapshot: Option<Uuid>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub container: String,
    pub metadata: BTreeMap<String, String>,
    /// The future owner, who must have the right to the volume.
    pub caller: RequestContext,
    /// Backs up a volume in use, too: it has what a guest would find after a power cut.
    pub force: bool,
}

/// A change of a backup. `None` leaves a field unchanged.
#[derive(Clone, Default, Debug)]
pub struct BackupUpdate {
    pub name: Option<Option<String>>,
    pub description: Option<Option<String>>,
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Where the bytes of a backup go.
#[derive(Clone, PartialEq, Debug)]
pub enum RestoreTarget {
    /// Into an available volume, whose bytes they replace.
    Volume(Uuid),
    /// Into a new volume, with this id and name.
    New { id: Uuid, name: String },
}

/// A restore that has begun. [`EmbeddedVolume::finish_restore`] copies the bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Restore {
    pub backup: Uuid,
    pub volume: Volume,
    /// The new volume; none if the volume was there before.
    new: Option<NewVolume>,
}

/// The beginning of the name that a restore gives to a new volume without one.
pub const RESTORED: &str = "restore_backup_";

impl EmbeddedVolume {
    /// Stores a backup as `creating`. [`EmbeddedVolume::fill_backup`] copies the bytes.
    pub async fn new_backup(&self, new: NewBackup) -> Result<Backup, ServiceError> {
        let (id, now) = (new.id, self.env.now().naive_utc());
        let size_gb = self.check_source_of_backup(&new).await?;
        let metadata = serde_json::to_string(&new.metadata).map_err(|e| ServiceError::Invalid(e.to_string()))?;
        self.write(None, move |conn| {
            let (place, gigabytes) = quotas::take_backup(conn, &new.caller.project_id, size_gb)?;
            let volume = rows::find(conn, &new.volume.to_string())?;
            let backup = BackupRow {
                id: id.to_string(),
                volume_id: new.volume.to_string(),
                snapshot_id: new.snapshot.map(|snapshot| snapshot.to_string()),
                name: new.name,
                description: new.description,
                container: new.container,
                project_id: new.caller.project_id,
                user_id: new.caller.user_id,
                status: "creating".into(),
                fail_reason: None,
                size_gb,
                bootable: false,
                image_id: None,
                image_metadata: None,
                metadata,
                created_at: now,
                updated_at: now,
                made_size: None,
                made_sha256: None,
                volume_name: volume.name,
                volume_description: volume.description,
                volume_metadata: Some(volume.metadata),
            };
            Ok(records::insert(conn, place, gigabytes, &backup)?)
        })
        .await?;
        self.backup(id).await
    }

    /// Checks the right to the volume and the snapshot, and their statuses. Returns the size in GiB.
    async fn check_source_of_backup(&self, new: &NewBackup) -> Result<i32, ServiceError> {
        let volume = self.own_volume(&new.caller, new.volume).await?;
        if let Some(snapshot) = new.snapshot {
            let snapshot = self.own_snapshot(&new.caller, snapshot).await?;
            if snapshot.volume_id != volume.id || snapshot.status != "available" {
                return Err(ServiceError::Invalid(format!("Invalid snapshot: {} is no available snapshot of the volume.", snapshot.id)));
            }
            return Ok(snapshot.size_gb);
        }
        let allowed: &[&str] = if new.force { &["available", "in-use"] } else { &["available"] };
        if !allowed.contains(&volume.status.as_str()) {
            let message = format!(
                "Invalid volume: Volume to be backed up must be {}, but the current status is \"{}\".",
                allowed.join(" or "),
                volume.status
            );
            return Err(ServiceError::Conflict(message));
        }
        Ok(volume.size_gb)
    }

    /// Copies the bytes of a `creating` backup and sets it available, or sets it to `error`.
    pub async fn fill_backup(&self, id: Uuid) -> Result<(), ServiceError> {
        let filled = self.copy_into_backup(id).await;
        if let Err(error) = &filled {
            let (key, now, reason) = (id.to_string(), self.env.now().naive_utc(), error.to_string());
            let noted = self.write(None, move |conn| {
                records::set_fail_reason(conn, &key, &reason)?;
                Ok(records::set_status(conn, &key, &["creating"], "error", now)?)
            });
            log::warn!(backup:% = id; "a backup could not be made: {error}; noting it: {:?}", noted.await.err());
        }
        filled
    }

    async fn copy_into_backup(&self, id: Uuid) -> Result<(), ServiceError> {
        let backup = self.backup(id).await?;
        let Filling { unplaced, origin } = match backup.snapshot_id {
            Some(snapshot) => self.filling_of_snapshot(snapshot, backup.size_gb).await?,
            None => self.filling_of_volume(backup.volume_id, backup.size_gb).await?,
        };
        let (path, now) = (self.path(id), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let key = id.to_string();
            if !records::set_status(conn, &key, &["creating"], "available", now)? {
                return Err(ServiceError::Conflict(format!("Backup {id} was given up while it was made.")).into());
            }
            records::set_made(conn, &key, unplaced.size, &unplaced.sha256, &origin)?;
            // Inside the transaction, under the row's lock: nobody uses the file before the commit.
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }

    async fn backup(&self, id: Uuid) -> Result<Backup, ServiceError> {
        self.read(move |conn| {
            let row = records::by_id(conn, &id.to_string())?.ok_or_else(|| no_backup(id))?;
            Ok(from_row(row)?)
        })
        .await
    }

    /// Returns the backup if the caller's project owns it or the caller is an administrator.
    pub async fn own_backup(&self, caller: &RequestContext, id: Uuid) -> Result<Backup, ServiceError> {
        let backup = self.backup(id).await?;
        if caller.is_admin() || backup.project_id == caller.project_id { Ok(backup) } else { Err(no_backup(id)) }
    }

    /// Returns the backups of a project, or all, newest first.
    pub async fn list_backups(&self, project: Option<&str>) -> Result<Vec<Backup>, ServiceError> {
        let project = project.map(str::to_owned);
        self.read(move |conn| {
            let rows = records::list(conn, project.as_deref())?;
            Ok(rows.into_iter().map(from_row).collect::<Result<_, DbError>>()?)
        })
        .await
    }

    /// Changes one of the caller's backups.
    pub async fn update_backup(&self, caller: &RequestContext, id: Uuid, update: BackupUpdate) -> Result<Backup, ServiceError> {
        let (now, caller) = (self.env.now().naive_utc(), caller.clone());
        self.write(None, move |conn| {
            let row = records::take(conn, &id.to_string(), now)?;
            let own = row.filter(|row| caller.is_admin() || row.project_id == caller.project_id);
            let mut row = own.ok_or_else(|| no_backup(id))?;
            row.name = update.name.unwrap_or(row.name.take());
            row.description = update.description.unwrap_or(row.description.take());
            if let Some(metadata) = &update.metadata {
                row.metadata = serde_json::to_string(metadata).map_err(DbError::from)?;
            }
            records::update(conn, &row)?;
            Ok(from_row(row)?)
        })
        .await
    }

    /// Sets the status for an operator, after an accident.
    pub async fn reset_backup_status(&self, id: Uuid, status: &str) -> Result<(), ServiceError> {
        if !RESETTABLE.contains(&status) {
            return Err(ServiceError::Invalid(format!("Status {status} is none of {}.", RESETTABLE.join(", "))));
        }
        let (status, now) = (status.to_owned(), self.env.now().naive_utc());
        self.write(None, move |conn| Ok(records::force_status(conn, &id.to_string(), &status, now)?)).await
    }

    /// Deletes one of the caller's backups. Conflict unless it is available or in error (or `force`).
    pub async fn delete_backup(&self, caller: &RequestContext, id: Uuid, force: bool) -> Result<(), ServiceError> {
        let backup = self.own_backup(caller, id).await?;
        if !force && !["available", "error"].contains(&backup.status.as_str()) {
            let message = format!("Invalid backup: Backup status must be available or error, but it is {}.", backup.status);
            return Err(ServiceError::Conflict(message));
        }
        let delete = move |conn: &mut Conn| Ok::<_, TransactionError>(records::delete(conn, &id.to_string())?);
        let given_up = self.write(None, move |conn| GivenUp::with_record(id, || delete(conn))).await?;
        bytes_on_disk::remove(&self.env, SERVICE, &self.folder, given_up).await
    }

    /// Begins to restore one of the caller's backups: the backup and its volume are taken.
    pub async fn begin_restore(&self, caller: &RequestContext, id: Uuid, target: RestoreTarget) -> Result<Restore, ServiceError> {
        let backup = self.own_backup(caller, id).await?;
        if backup.status != "available" {
            return Err(ServiceError::Conflict(format!("Invalid backup: Backup status must be available, but it is {}.", backup.status)));
        }
        let new = match target {
            RestoreTarget::Volume(volume) => {
                self.take_for_restore(caller, volume, backup.size_gb).await?;
                return self.begun(id, volume, None).await;
            }
            RestoreTarget::New { id, name } => NewVolume {
                id,
                name: Some(name),
                caller: caller.clone(),
                size_gb: backup.size_gb,
                source: VolumeSource::Backup(backup.id),
                volume_type: None,
            },
        };
        self.create(new.clone(), None, BTreeMap::new()).await?;
        self.begun(id, new.id, Some(new)).await
    }

    /// Takes an available volume that is large enough.
    async fn take_for_restore(&self, caller: &RequestContext, volume: Uuid, size_gb: i32) -> Result<(), ServiceError> {
        let known = self.own_volume(caller, volume).await?;
        if known.size_gb < size_gb {
            return Err(ServiceError::Invalid(format!(
                "Invalid input received: the volume of {} GiB is too small to restore a backup of {size_gb} GiB.",
                known.size_gb
            )));
        }
        let now = self.env.now().naive_utc();
        let reserved = self.write(None, move |conn| {
            let row = rows::take(conn, &volume.to_string(), now)?.ok_or_else(|| no_volume(volume))?;
            refuse_attached(conn, &row)?;
            Ok(rows::set_status(conn, &row.id, &["available"], RESTORING_VOLUME, now)?)
        });
        match reserved.await? {
            true => Ok(()),
            false => Err(ServiceError::Conflict(format!("Invalid volume: volume {volume} to be restored to must be available."))),
        }
    }

    async fn begun(&self, backup: Uuid, volume: Uuid, new: Option<NewVolume>) -> Result<Restore, ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| Ok(records::set_status(conn, &backup.to_string(), &["available"], "restoring", now)?)).await?;
        Ok(Restore { backup, volume: self.volume(volume).await?, new })
    }

    /// Copies the bytes of a restore into its volume. If that fails, the volume is in an error, and the backup is as it was.
    pub async fn finish_restore(&self, restore: Restore) {
        let (backup, volume) = (restore.backup, restore.volume.id);
        let restored = match &restore.new {
            Some(new) => self.fill_from_backup(backup, new).await,
            None => self.replace_bytes(backup, volume, restore.volume.size_gb).await,
        };
        if let Err(error) = &restored {
            log::warn!(backup:% = backup, volume:% = volume; "a backup could not be restored: {error}");
        }
        let now = self.env.now().naive_utc();
        let ended = self.write(None, move |conn| {
            rows::set_status(conn, &volume.to_string(), &[RESTORING_VOLUME], FAILED_VOLUME, now)?;
            Ok(records::set_status(conn, &backup.to_string(), &["restoring"], "available", now)?)
        });
        if let Err(error) = ended.await {
            log::warn!(backup:% = backup; "the end of a restore could not be noted: {error}");
        }
    }

    async fn fill_from_backup(&self, backup: Uuid, new: &NewVolume) -> Result<(), ServiceError> {
        let (key, now) = (new.id.to_string(), self.env.now().naive_utc());
        self.write(None, move |conn| describe(conn, backup, &key, now)).await?;
        self.fill(None, new).await
    }

    /// Replaces the bytes of a volume with those of a backup. The old bytes stay until all new bytes are on disk.
    async fn replace_bytes(&self, backup: Uuid, volume: Uuid, size_gb: i32) -> Result<(), ServiceError> {
        let Filling { unplaced, origin } = self.filling_of_backup(backup, size_gb).await?;
        let (path, now, key) = (self.path(volume), self.env.now().naive_utc(), volume.to_string());
        let forgotten = key.clone();
        // A crash between the new file's rename and the commit would leave the old checksum beside new bytes.
        self.write(None, move |conn| Ok(rows::forget_made(conn, &forgotten)?)).await?;
        self.write(None, move |conn| {
            if !rows::set_status(conn, &key, &[RESTORING_VOLUME], "available", now)? {
                return Err(ServiceError::Conflict(format!("Volume {volume} was given up while a backup was restored into it.")).into());
            }
            describe(conn, backup, &key, now)?;
            rows::set_origin(conn, &key, &origin)?;
            rows::set_made(conn, &key, unplaced.size, &unplaced.sha256)?;
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }

    /// Copies the bytes of a backup.
    pub(super) async fn filling_of_backup(&self, backup: Uuid, size_gb: i32) -> Result<Filling, ServiceError> {
        let row = self.read(move |conn| Ok(records::by_id(conn, &backup.to_string())?)).await?;
        let row = row.filter(|row| row.made_size.is_some()).ok_or_else(|| no_backup(backup))?;
        Ok(Filling { unplaced: self.copied(backup, size_gb).await?, origin: row.origin() })
    }
}

/// Gives a volume the description and metadata that the backup's volume had. Its name, too, if it has only the one that a restore makes.
fn describe(conn: &mut Conn, backup: Uuid, volume: &str, now: NaiveDateTime) -> Result<(), TransactionError> {
    let backup = records::by_id(conn, &backup.to_string())?.ok_or_else(|| no_backup(backup))?;
    let (Some(metadata), Some(mut row)) = (backup.volume_metadata, rows::take(conn, volume, now)?) else { return Ok(()) };
    if backup.volume_name.is_some() && row.name.as_ref().is_some_and(|name| name.starts_with(RESTORED)) {
        row.name = backup.volume_name;
    }
    (row.description, row.metadata) = (backup.volume_description, metadata);
    Ok(rows::update(conn, &row)?)
}

/// Sets interrupted backups to `error`, ends interrupted restores, and returns the names of the files of the other backups.
pub(super) fn give_up_unfinished(conn: &mut Conn, now: NaiveDateTime) -> Result<Vec<String>, DbError> {
    let mut whole = Vec::new();
    for backup in records::list(conn, None)? {
        match backup.status.as_str() {
            "creating" => {
                records::set_fail_reason(conn, &backup.id, "the service stopped while the backup was made")?;
                records::set_status(conn, &backup.id, &["creating"], "error", now)?;
                continue;
            }
            "restoring" => drop(records::set_status(conn, &backup.id, &["restoring"], "available", now)?),
            _ => {}
        }
        whole.push(backup.id);
    }
    for volume in rows::list(conn, None)?.iter().filter(|volume| volume.status == RESTORING_VOLUME) {
        rows::set_status(conn, &volume.id, &[RESTORING_VOLUME], FAILED_VOLUME, now)?;
    }
    Ok(whole)
}

/// Returns the backups whose bytes were written, as volumes are returned.
pub(super) fn made(conn: &mut Conn) -> Result<Vec<MadeVolume>, DbError> {
    let as_made = |row: BackupRow| MadeVolume { id: row.id, size_gb: row.size_gb, made_size: row.made_size, made_sha256: row.made_sha256 };
    Ok(records::made(conn)?.into_iter().map(as_made).collect())
}

pub(super) fn no_backup(id: Uuid) -> ServiceError {
    ServiceError::NotFound(format!("Backup {id} could not be found."))
}

fn from_row(row: BackupRow) -> Result<Backup, DbError> {
    Ok(Backup {
        id: read_id("volume_backups.id", &row.id)?,
        volume_id: read_id("volume_backups.volume_id", &row.volume_id)?,
        snapshot_id: row.snapshot_id.map(|id| read_id("volume_backups.snapshot_id", &id)).transpose()?,
        name: row.name,
        description: row.description,
        container: row.container,
        project_id: row.project_id,
        user_id: row.user_id,
        status: row.status,
        fail_reason: row.fail_reason,
        size_gb: row.size_gb,
        metadata: serde_json::from_str(&row.metadata)?,
        created_at: row.created_at.and_utc(),
        updated_at: Some(row.updated_at.and_utc()).filter(|_| row.updated_at != row.created_at),
    })
}
