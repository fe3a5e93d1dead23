//! Backups of volumes: whole copies of their bytes that outlive them. `restoring` has the way back into a volume.

mod bodies;
pub(super) mod records;
mod restoring;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, DbError};
use chrono::NaiveDateTime;
use uuid::Uuid;

use self::records::BackupRow;
pub use self::restoring::{RESTORED, Restore, RestoreTarget};
use crate::ServiceError;
use crate::bytes_on_disk;
use crate::transaction::Transactions;
use crate::volume::filling::Filling;
use crate::volume::rules::{check_reset, may_use, read_all};
use crate::volume::{EmbeddedVolume, SERVICE, quotas, rows};

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

impl EmbeddedVolume {
    /// Stores a backup as `creating`. [`EmbeddedVolume::fill_backup`] copies the bytes.
    pub async fn new_backup(&self, new: NewBackup) -> Result<Backup, ServiceError> {
        let (id, now) = (new.id, self.env.now().naive_utc());
        let size_gb = self.check_source_of_backup(&new).await?;
        let metadata = serde_json::to_string(&new.metadata).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
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
                return Err(ServiceError::Invalid(reason!("Invalid snapshot: {} is no available snapshot of the volume.", snapshot.id)));
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
            return Err(ServiceError::Conflict(Reason::public(message)));
        }
        Ok(volume.size_gb)
    }

    /// Copies the bytes of a `creating` backup and sets it available, or sets it to `error`.
    pub async fn fill_backup(&self, id: Uuid) -> Result<(), ServiceError> {
        let filled = self.copy_into_backup(id).await;
        if let Err(error) = &filled {
            let (key, now, reason) = (id.to_string(), self.env.now().naive_utc(), reason!("{error}").stored());
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
                return Err(ServiceError::Conflict(reason!("Backup {id} was given up while it was made.")).into());
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
        if may_use(caller, &backup.project_id) { Ok(backup) } else { Err(no_backup(id)) }
    }

    /// Returns the backups of a project, or all, newest first.
    pub async fn list_backups(&self, project: Option<&str>) -> Result<Vec<Backup>, ServiceError> {
        let project = project.map(str::to_owned);
        self.read(move |conn| read_all(records::list(conn, project.as_deref())?, from_row)).await
    }

    /// Changes one of the caller's backups.
    pub async fn update_backup(&self, caller: &RequestContext, id: Uuid, update: BackupUpdate) -> Result<Backup, ServiceError> {
        let (now, caller) = (self.env.now().naive_utc(), caller.clone());
        self.write(None, move |conn| {
            let mut row = records::take_own(conn, &caller, id, now, no_backup)?;
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
        check_reset(status, &RESETTABLE)?;
        let (status, now) = (status.to_owned(), self.env.now().naive_utc());
        self.write(None, move |conn| Ok(records::force_status(conn, &id.to_string(), &status, now)?)).await
    }

    /// Deletes one of the caller's backups. Conflict unless it is available or in error (or `force`).
    pub async fn delete_backup(&self, caller: &RequestContext, id: Uuid, force: bool) -> Result<(), ServiceError> {
        let backup = self.own_backup(caller, id).await?;
        if !force && !["available", "error"].contains(&backup.status.as_str()) {
            let message = format!("Invalid backup: Backup status must be available or error, but it is {}.", backup.status);
            return Err(ServiceError::Conflict(Reason::public(message)));
        }
        self.delete_with_file(None, id, move |conn| Ok(records::delete(conn, &id.to_string())?)).await
    }

    /// Copies the bytes of a backup.
    pub(super) async fn filling_of_backup(&self, backup: Uuid, size_gb: i32) -> Result<Filling, ServiceError> {
        let row = self.read(move |conn| Ok(records::by_id(conn, &backup.to_string())?)).await?;
        let row = row.filter(|row| row.made_size.is_some()).ok_or_else(|| no_backup(backup))?;
        Ok(Filling { unplaced: self.copied(backup, size_gb).await?, origin: row.origin() })
    }
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
    restoring::give_up_volumes(conn, now)?;
    Ok(whole)
}

pub(super) fn no_backup(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("Backup {id} could not be found."))
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
        fail_reason: row.fail_reason.map(|stored| Reason::read(&stored).for_users()),
        size_gb: row.size_gb,
        metadata: serde_json::from_str(&row.metadata)?,
        created_at: row.created_at.and_utc(),
        updated_at: Some(row.updated_at.and_utc()).filter(|_| row.updated_at != row.created_at),
    })
}
