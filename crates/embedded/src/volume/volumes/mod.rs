//! Volumes as users of the API see and change them. A volume that the caller may not see is reported as missing.

pub(super) mod actions;
mod bodies;
mod creating;
pub(super) mod image_metadata;
pub(super) mod reading;
pub(super) mod records;
pub(super) mod routes;

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_store::{Conn, DbError};
use uuid::Uuid;

use self::reading::{load, load_list};
use self::records::VolumeRow;
use crate::ServiceError;
use crate::bytes_on_disk;
use crate::transaction::{TransactionError, Transactions};
use crate::volume::attachments::from_attachments;
use crate::volume::direct_attachments::held_by_compute;
use crate::volume::rules::{change_texts, may_use};
use crate::volume::{
    Attachment, EmbeddedVolume, SERVICE, Volume, VolumeService, attachments, direct_attachments, gibibytes, quotas, rows, snapshots,
    transfers,
};

/// A change of a volume. `None` leaves a field unchanged; `Some(None)` clears it.
#[derive(Clone, Default, Debug)]
pub struct VolumeUpdate {
    pub name: Option<Option<String>>,
    pub description: Option<Option<String>>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub bootable: Option<bool>,
}

/// The store's room, in GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreRoom {
    pub total_gb: u64,
    pub free_gb: u64,
    pub allocated_gb: i64,
}

/// The statuses that an administrator sets after an accident. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StatusReset {
    pub status: Option<String>,
    /// False forgets the attachments that users recorded; true requires that there is an attachment.
    pub attached: Option<bool>,
    /// `Some(None)` clears it.
    pub migration_status: Option<Option<String>>,
}

/// The statuses that an administrator may set.
pub const RESETTABLE: [&str; 17] = [
    "creating",
    "available",
    "error",
    "attaching",
    "in-use",
    "maintenance",
    "restoring-backup",
    "error_restoring",
    "reserved",
    "awaiting-transfer",
    "backing-up",
    "error_backing-up",
    "error_extending",
    "downloading",
    "uploading",
    "retyping",
    "extending",
];

impl EmbeddedVolume {
    /// Returns the volume if the caller's project owns it or the caller is an administrator.
    pub async fn own_volume(&self, caller: &RequestContext, id: Uuid) -> Result<Volume, ServiceError> {
        let volume = self.volume(id).await?;
        if may_use(caller, &volume.project_id) { Ok(volume) } else { Err(no_volume(id)) }
    }

    /// Returns the volumes of a project, or all, newest first.
    pub async fn list(&self, project: Option<&str>) -> Result<Vec<Volume>, ServiceError> {
        let project = project.map(str::to_owned);
        self.read(move |conn| load_list(conn, project.as_deref())).await
    }

    /// Returns the store's room, and the sum of the sizes that volumes and snapshots have been promised.
    pub async fn room(&self) -> Result<StoreRoom, ServiceError> {
        let bytes_on_disk::Room { holds, free } = bytes_on_disk::room(&self.env, SERVICE, &self.folder).await?;
        let volumes = self.list(None).await?.into_iter().map(|volume| volume.size_gb);
        let snapshots = self.list_snapshots(None).await?.into_iter().map(|snapshot| snapshot.size_gb);
        let allocated_gb = volumes.chain(snapshots).map(i64::from).sum();
        Ok(StoreRoom { total_gb: holds >> 30, free_gb: free >> 30, allocated_gb })
    }

    /// Changes one of the caller's volumes.
    pub async fn update(&self, caller: &RequestContext, id: Uuid, update: VolumeUpdate) -> Result<Volume, ServiceError> {
        let now = self.env.now().naive_utc();
        self.change(caller, id, move |_, row| {
            row.name = update.name.unwrap_or(row.name.take());
            row.description = update.description.unwrap_or(row.description.take());
            row.bootable = update.bootable.unwrap_or(row.bootable);
            if let Some(metadata) = update.metadata {
                row.metadata = serde_json::to_string(&metadata).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
            }
            row.updated_at = now;
            Ok(())
        })
        .await
    }

    /// Changes the metadata of a volume's image, in one transaction. Conflict if the volume comes from none.
    pub async fn change_image_metadata<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Volume, ServiceError>
    where
        F: FnOnce(&mut BTreeMap<String, String>) -> Result<(), ServiceError> + Send + 'static,
    {
        self.change(caller, id, move |conn, row| {
            let mut metadata = image_metadata::read(row)?;
            change(&mut metadata)?;
            let image_metadata = Some(serde_json::to_string(&metadata).map_err(DbError::from)?);
            let origin = rows::Origin { image_metadata, ..row.origin() };
            Ok(rows::set_origin(conn, &row.id, &origin)?)
        })
        .await
    }

    /// Changes a volume's metadata, in one transaction.
    pub async fn change_metadata<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Volume, ServiceError>
    where
        F: FnOnce(&mut BTreeMap<String, String>) -> Result<(), ServiceError> + Send + 'static,
    {
        self.change(caller, id, move |_, row| change_texts(&mut row.metadata, change)).await
    }

    /// Enlarges a volume; one in use only if `in_use_too`. Its users see the new size at once.
    pub async fn extend(&self, caller: &RequestContext, id: Uuid, size_gb: i32, in_use_too: bool) -> Result<(), ServiceError> {
        bytes_on_disk::check_length(&self.env, SERVICE, &self.folder, gibibytes(size_gb)).await?;
        let path = self.path(id);
        self.change(caller, id, move |conn, row| {
            let extendable = row.status == "available" || in_use_too && row.status == "in-use";
            if size_gb <= row.size_gb || !extendable {
                let message = format!("Invalid volume: a {} volume of {} GiB cannot be extended to {size_gb}.", row.status, row.size_gb);
                return Err(ServiceError::Conflict(Reason::public(message)).into());
            }
            let granted = quotas::take_growth(conn, row, size_gb)?;
            rows::enlarge(conn, granted, &row.id, size_gb)?;
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let grown = file.and_then(|file| file.set_len(gibibytes(size_gb)).and_then(|()| file.sync_all()));
            grown.map_err(|e| bytes_on_disk::disk_failed(SERVICE, &path, &e).into())
        })
        .await
        .map(|_| ())
    }

    /// Sets the status for an operator, after an accident. Conflict if that would forget an attachment of the compute service.
    pub async fn reset_status(&self, id: Uuid, reset: StatusReset) -> Result<(), ServiceError> {
        if let Some(status) = reset.status.as_deref().filter(|status| !RESETTABLE.contains(status)) {
            return Err(ServiceError::Invalid(reason!("Cannot reset-state to {status}: it is none of {}.", RESETTABLE.join(", "))));
        }
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| {
            let key = id.to_string();
            rows::take(conn, &key, now)?.ok_or_else(|| no_volume(id))?;
            let by_compute = attachments::records::of_volume(conn, &key)?;
            let mut directly = direct_attachments::records::of_volume(conn, &key)?;
            if reset.attached == Some(false) {
                if let Some(attachment) = by_compute.first() {
                    return Err(held_by_compute(&attachment.server_uuid).into());
                }
                for attachment in directly.drain(..) {
                    direct_attachments::records::delete(conn, &attachment.id)?;
                }
            }
            let attached = !by_compute.is_empty() || !directly.is_empty();
            if !attached && (reset.status.as_deref() == Some("in-use") || reset.attached == Some(true)) {
                let message = "Cannot reset-state to in-use because volume does not have any attachments.";
                return Err(ServiceError::Invalid(message.into()).into());
            }
            if let Some(status) = &reset.status {
                rows::force_status(conn, &key, status, now)?;
            }
            if let Some(status) = &reset.migration_status {
                rows::set_migration_status(conn, &key, status.as_deref())?;
            }
            Ok(())
        })
        .await
    }

    /// Deletes one of the caller's volumes, after its snapshots if `cascade`. Conflict while it is attached or has snapshots, or unless it
    /// is available or in error (or `force`).
    pub async fn delete_own(&self, caller: &RequestContext, id: Uuid, force: bool, cascade: bool) -> Result<(), ServiceError> {
        let volume = self.own_volume(caller, id).await?;
        if !force && !["available", "error", "error_restoring"].contains(&volume.status.as_str()) {
            let message = format!("Invalid volume: Volume status must be available or error, but it is {}.", volume.status);
            return Err(ServiceError::Conflict(Reason::public(message)));
        }
        // Before the snapshots go: even by force a volume that is attached stays, and its snapshots with it.
        if !volume.attachments.is_empty() || !volume.direct_attachments.is_empty() {
            return Err(still_attached(id));
        }
        if cascade {
            self.delete_snapshots_of(id).await?;
        }
        self.remove(None, id).await
    }

    /// Returns an attachment that the caller may see.
    pub async fn own_attachment(&self, caller: &RequestContext, id: Uuid) -> Result<Attachment, ServiceError> {
        let missing = || ServiceError::NotFound(reason!("Volume attachment {id} could not be found."));
        let attachments =
            self.read(move |conn| from_attachments(attachments::records::by_id(conn, &id.to_string())?.into_iter().collect())).await?;
        let attachment = attachments.into_iter().next().ok_or_else(missing)?;
        self.own_volume(caller, attachment.volume_id).await.map_err(|_| missing())?;
        Ok(attachment)
    }

    pub(super) async fn remove(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        self.delete_with_file(fence, id, move |conn| {
            let key = id.to_string();
            if rows::take(conn, &key, now)?.is_some() {
                if !attachments::records::of_volume(conn, &key)?.is_empty()
                    || !direct_attachments::records::of_volume(conn, &key)?.is_empty()
                {
                    return Err(still_attached(id).into());
                }
                snapshots::none_of(conn, id)?;
                transfers::records::delete_of_volume(conn, &key)?;
                rows::delete(conn, &key)?;
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn change<F>(&self, caller: &RequestContext, id: Uuid, change: F) -> Result<Volume, ServiceError>
    where
        F: FnOnce(&mut Conn, &mut VolumeRow) -> Result<(), TransactionError> + Send + 'static,
    {
        let (now, caller) = (self.env.now().naive_utc(), caller.clone());
        self.write(None, move |conn| {
            let mut row = rows::take_own(conn, &caller, id, now, no_volume)?;
            change(conn, &mut row)?;
            rows::update(conn, &row)?;
            load(conn, id)
        })
        .await
    }
}

fn still_attached(id: Uuid) -> ServiceError {
    ServiceError::Conflict(reason!("Invalid volume: volume {id} is still attached."))
}

pub(super) fn no_volume(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("Volume {id} could not be found."))
}
