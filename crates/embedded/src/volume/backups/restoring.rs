//! The way of a backup's bytes into a volume.

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use uuid::Uuid;

use super::{no_backup, records};
use crate::ServiceError;
use crate::bytes_on_disk;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::attachments::refuse_attached;
use crate::volume::filling::Filling;
use crate::volume::volumes::no_volume;
use crate::volume::{EmbeddedVolume, NewVolume, SERVICE, Volume, VolumeService, VolumeSource, rows};

/// The status of a volume whose bytes a backup is replacing.
const RESTORING_VOLUME: &str = "restoring-backup";
/// The status of a volume that got only a part of a backup, or nothing.
const FAILED_VOLUME: &str = "error_restoring";
/// The beginning of the name that a restore gives to a new volume without one.
pub const RESTORED: &str = "restore_backup_";

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

impl EmbeddedVolume {
    /// Begins to restore one of the caller's backups: the backup and its volume are taken.
    pub async fn begin_restore(&self, caller: &RequestContext, id: Uuid, target: RestoreTarget) -> Result<Restore, ServiceError> {
        let backup = self.own_backup(caller, id).await?;
        if backup.status != "available" {
            return Err(ServiceError::Conflict(reason!("Invalid backup: Backup status must be available, but it is {}.", backup.status)));
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
        let target = self.own_volume(caller, volume).await?;
        if target.size_gb < size_gb {
            return Err(ServiceError::Invalid(reason!(
                "Invalid input received: the volume of {} GiB is too small to restore a backup of {size_gb} GiB.",
                target.size_gb
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
            false => Err(ServiceError::Conflict(reason!("Invalid volume: volume {volume} to be restored to must be available."))),
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
                return Err(ServiceError::Conflict(reason!("Volume {volume} was given up while a backup was restored into it.")).into());
            }
            describe(conn, backup, &key, now)?;
            rows::set_origin(conn, &key, &origin)?;
            rows::set_made(conn, &key, unplaced.size, &unplaced.sha256)?;
            Ok(bytes_on_disk::place(SERVICE, unplaced, &path)?)
        })
        .await
    }
}

/// Sets the volumes whose restore was interrupted to an error.
pub(super) fn give_up_volumes(conn: &mut Conn, now: NaiveDateTime) -> Result<(), DbError> {
    for volume in rows::list(conn, None)?.iter().filter(|volume| volume.status == RESTORING_VOLUME) {
        rows::set_status(conn, &volume.id, &[RESTORING_VOLUME], FAILED_VOLUME, now)?;
    }
    Ok(())
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
