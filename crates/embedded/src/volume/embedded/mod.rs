//! The embedded volume service: records in the services database, and a file per volume in a folder, named by its id.
//!
//! `attachments` attaches volumes for the compute service, `direct_attachments` and `attaching_in_steps` record what users attach, `filling` writes their bytes, `snapshots` and `backups` copy them, `records` serves users of the API, and
//! `quotas` limits projects.

mod attaching_in_steps;
mod attachments;
mod backups;
mod default_types;
mod direct_attachments;
mod filling;
mod image_metadata;
mod messages;
mod processes;
mod qos_specs;
mod quotas;
mod records;
mod snapshots;
#[cfg(test)]
mod tests;
mod transfers;
mod uploads;
mod volume_types;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_env::Env;
use cellshift_store::{Conn, Db, DbError};
use uuid::Uuid;

use super::{Attachment, NewSnapshot, NewVolume, Snapshot, Volume, VolumeService, VolumeSource};
use crate::ServiceError;
use crate::bytes_on_disk::{self, GivenUp};
use crate::image::ImageService;
use crate::records::read_id;
use crate::records::volume::direct_attachments::DirectAttachmentRow;
use crate::records::volume::{self as rows, AttachmentRow, VolumeRow};
use crate::stored_bytes::{self, StoredBytes};
use crate::transaction::{TransactionError, Transactions};
pub use attaching_in_steps::{Connector, NewAttachment};
pub use backups::{Backup, BackupUpdate, NewBackup, RESTORED, Restore, RestoreTarget};
pub use default_types::DefaultType;
pub use direct_attachments::WantedAttachment;
pub use messages::Message;
pub use processes::{BACKEND, CAPABILITIES, Process, VOLUME_PROCESS};
pub use qos_specs::QosSpecs;
pub use quotas::{OF_TYPES, QUOTA_RESOURCES, QuotaUsage};
pub use records::{StatusReset, StoreRoom, VolumeUpdate};
pub use snapshots::SnapshotUpdate;
pub use transfers::Transfer;
pub use volume_types::{DEFAULT_OF_PROJECT, DEFAULT_TYPE, MULTIATTACH_TYPE, TypeUpdate, VolumeType};

const SERVICE: &str = "volume";
/// The volume host's name in the form `host@backend#pool`.
pub const HOST: &str = "cellshift@local#local";
/// The only availability zone of this service.
pub const ZONE: &str = "nova";

/// The volume service in this process. Share it as `Arc` or `web::Data`.
pub struct EmbeddedVolume {
    db: Db,
    env: Env,
    folder: PathBuf,
    images: Arc<dyn ImageService>,
}

impl Transactions for EmbeddedVolume {
    const SERVICE: &'static str = SERVICE;

    fn database(&self) -> &Db {
        &self.db
    }
}

impl EmbeddedVolume {
    /// Opens the service over the services database and the folder of the files, which is made if missing. A volume whose creation a crash
    /// interrupted gets status `error`; creating it again with its id repairs it. A volume whose upload a crash interrupted is available.
    pub async fn open(db: Db, env: Env, folder: &Path, images: Arc<dyn ImageService>) -> Result<EmbeddedVolume, ServiceError> {
        let now = env.now().naive_utc();
        let known = db.write(move |conn| {
            let volumes = rows::list(conn, None)?;
            for VolumeRow { id, status, .. } in &volumes {
                match status.as_str() {
                    "creating" => rows::set_status(conn, id, &["creating"], "error", now)?,
                    uploads::UPLOADING => rows::set_status(conn, id, &[uploads::UPLOADING], "available", now)?,
                    _ => continue,
                };
            }
            // The bytes of an unfinished volume cannot be trusted, so their file counts as unknown.
            let made = volumes.into_iter().filter(|volume| volume.status != "creating").map(|volume| volume.id);
            let made = made.chain(snapshots::give_up_unfinished(conn, now)?).chain(backups::give_up_unfinished(conn, now)?);
            Ok(made.collect::<BTreeSet<_>>())
        });
        let known = known.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        bytes_on_disk::open_folder(&env, SERVICE, folder, move |name| known.contains(name)).await?;
        Ok(EmbeddedVolume::over(db, env, folder, images))
    }

    /// Makes a read-only view of the service: it repairs, moves and removes nothing.
    pub fn over(db: Db, env: Env, folder: &Path, images: Arc<dyn ImageService>) -> EmbeddedVolume {
        EmbeddedVolume { db, env, folder: folder.to_owned(), images }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Stores the record as `creating`. False if the volume is made already.
    async fn record(
        &self,
        fence: Option<Fence>,
        new: NewVolume,
        description: Option<String>,
        metadata: &str,
    ) -> Result<bool, ServiceError> {
        let volume_type = new.volume_type.unwrap_or_else(|| DEFAULT_OF_PROJECT.to_owned());
        let volume_type = self.usable_type(&new.caller, &volume_type).await?;
        let type_id = volume_type.id;
        if new.size_gb < 1 {
            return Err(ServiceError::Invalid(format!(
                "Invalid volume size provided for create request: {} (it must be 1 or more).",
                new.size_gb
            )));
        }
        bytes_on_disk::check_length(&self.env, SERVICE, &self.folder, gibibytes(new.size_gb)).await?;
        let now = self.env.now().naive_utc();
        let mut row = VolumeRow {
            id: new.id.to_string(),
            name: new.name,
            description,
            project_id: new.caller.project_id,
            user_id: new.caller.user_id,
            status: "creating".into(),
            size_gb: new.size_gb,
            bootable: false,
            multiattach: volume_type.is_multiattach(),
            availability_zone: ZONE.into(),
            volume_type: Some(volume_type.name),
            image_id: None,
            metadata: metadata.to_owned(),
            created_at: now,
            updated_at: now,
            image_metadata: None,
            snapshot_id: None,
            source_volid: None,
            readonly: None,
            migration_status: None,
        };
        match new.source {
            VolumeSource::Blank | VolumeSource::Backup(_) => {}
            VolumeSource::Image(id) => row.image_id = Some(id.to_string()),
            VolumeSource::Snapshot(id) => row.snapshot_id = Some(id.to_string()),
            VolumeSource::Volume(id) => row.source_volid = Some(id.to_string()),
        }
        let path = self.path(new.id);
        self.write(fence, move |conn| match rows::by_id(conn, &row.id)? {
            // A failed or interrupted creation starts again. Existing bytes are never touched.
            Some(known) if known.status == "creating" => Ok(true),
            Some(_) if path.exists() => Ok(false),
            Some(_) => Ok(rows::set_status(conn, &row.id, &["error"], "creating", now)?),
            None => {
                // Under the lock of the type's row, so that no type is deleted while a volume of it is made.
                volume_types::taken(conn, type_id)?;
                let (volume, gigabytes) = quotas::take_volume(conn, &row.project_id, row.size_gb, row.volume_type.as_deref())?;
                rows::insert(conn, volume, gigabytes, &row)?;
                Ok(true)
            }
        })
        .await
    }

    async fn remove(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        let now = self.env.now().naive_utc();
        let delete = move |conn: &mut Conn| {
            let key = id.to_string();
            if rows::take(conn, &key, now)?.is_some() {
                if !rows::attachments_of_volume(conn, &key)?.is_empty() || !rows::direct_attachments::of_volume(conn, &key)?.is_empty() {
                    return Err(still_attached(id).into());
                }
                snapshots::none_of(conn, id)?;
                rows::transfers::delete_of_volume(conn, &key)?;
                rows::delete(conn, &key)?;
            }
            Ok(())
        };
        let given_up = self.write(fence, move |conn| GivenUp::with_record(id, || delete(conn))).await?;
        // After the commit: a file without a record goes to lost+found/ at a start, but a record without a file would be false.
        bytes_on_disk::remove(&self.env, SERVICE, &self.folder, given_up).await
    }
}

#[async_trait]
impl VolumeService for EmbeddedVolume {
    async fn volume(&self, id: Uuid) -> Result<Volume, ServiceError> {
        self.read(move |conn| load(conn, id)).await
    }

    async fn snapshot(&self, id: Uuid) -> Result<Snapshot, ServiceError> {
        self.read(move |conn| snapshots::load_snapshot(conn, id)).await
    }

    async fn volume_type(&self, caller: &RequestContext, id_or_name: &str) -> Result<String, ServiceError> {
        Ok(self.usable_type(caller, id_or_name).await?.name)
    }

    async fn create_volume(&self, fence: Fence, volume: NewVolume) -> Result<(), ServiceError> {
        if self.record(Some(fence), volume.clone(), None, "{}").await? {
            self.fill(Some(fence), &volume).await?;
        }
        Ok(())
    }

    async fn reimage_volume(&self, fence: Fence, caller: &RequestContext, id: Uuid, image: Uuid) -> Result<(), ServiceError> {
        self.reimage(fence, caller, id, image).await
    }

    async fn delete_volume(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        match self.remove(Some(fence), id).await {
            Err(ServiceError::Conflict(_)) if self.has_snapshots(id).await? => Ok(()),
            removed => removed,
        }
    }

    async fn check_room_for_snapshots(&self, volumes: Vec<Uuid>) -> Result<(), ServiceError> {
        self.read(move |conn| snapshots::check_room(conn, &volumes)).await
    }

    async fn create_snapshot(&self, fence: Fence, snapshot: NewSnapshot) -> Result<(), ServiceError> {
        self.record_snapshot(Some(fence), snapshot).await.map(drop)
    }

    async fn take_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.fill_unless_filled(fence, id).await
    }

    async fn delete_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.remove_snapshot(Some(fence), id).await
    }

    async fn create_attachment(
        &self,
        fence: Fence,
        id: Uuid,
        volume: Uuid,
        host: Option<&str>,
        mountpoint: Option<&str>,
    ) -> Result<Attachment, ServiceError> {
        self.attach(fence, id, volume, host, mountpoint).await
    }

    async fn update_attachment(&self, fence: Fence, id: Uuid, host: &str, mountpoint: Option<&str>) -> Result<Attachment, ServiceError> {
        self.connect(fence, id, host, mountpoint).await
    }

    async fn complete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.complete(fence, id).await
    }

    async fn delete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.detach(fence, id).await
    }

    async fn attachments_of(&self, server: Uuid) -> Result<Vec<Attachment>, ServiceError> {
        self.read(move |conn| from_attachments(rows::attachments_of_server(conn, &server.to_string())?)).await
    }

    async fn all_attachments(&self) -> Result<Vec<Attachment>, ServiceError> {
        self.read(|conn| from_attachments(rows::all_attachments(conn)?)).await
    }

    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError> {
        let all = |conn: &mut Conn| Ok([rows::made(conn)?, snapshots::made(conn)?, backups::made(conn)?].concat());
        let volumes = self.read(all).await?;
        let names = volumes.iter().map(|volume| volume.id.clone()).collect();
        let lengths = stored_bytes::lengths(&self.env, &self.folder, names).await;
        let lengths = lengths.map_err(|e| bytes_on_disk::disk_failed(SERVICE, &self.folder, &e))?;
        let found = volumes.into_iter().zip(lengths).map(|(volume, found)| {
            let id = read_id("volumes.id", &volume.id).map_err(|e| ServiceError::from_db(SERVICE, e))?;
            let written = volume.made_size.and_then(|size| u64::try_from(size).ok());
            let content = written.zip(volume.made_sha256);
            let expected = gibibytes(volume.size_gb);
            Ok(StoredBytes { id, path: self.path(id), found, expected, at_least: true, content })
        });
        found.collect()
    }
}

fn gibibytes(size_gb: i32) -> u64 {
    u64::try_from(size_gb).unwrap_or(0) << 30
}

fn still_attached(id: Uuid) -> ServiceError {
    ServiceError::Conflict(format!("Invalid volume: volume {id} is still attached."))
}

fn no_volume(id: Uuid) -> ServiceError {
    ServiceError::NotFound(format!("Volume {id} could not be found."))
}

fn load(conn: &mut Conn, id: Uuid) -> Result<Volume, TransactionError> {
    let row = rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_volume(id))?;
    let attached =
        Attached { by_compute: rows::attachments_of_volume(conn, &row.id)?, directly: rows::direct_attachments::of_volume(conn, &row.id)? };
    let types = volume_types::ids_by_name(conn)?;
    Ok(from_row(row, attached, &types)?)
}

/// The attachments of a volume.
#[derive(Default)]
struct Attached {
    by_compute: Vec<AttachmentRow>,
    directly: Vec<DirectAttachmentRow>,
}

/// Returns the volumes of a project, or all, newest first.
fn load_list(conn: &mut Conn, project: Option<&str>) -> Result<Vec<Volume>, TransactionError> {
    let mut attached: BTreeMap<String, Attached> = BTreeMap::new();
    for attachment in rows::all_attachments(conn)? {
        attached.entry(attachment.volume_id.clone()).or_default().by_compute.push(attachment);
    }
    for attachment in rows::direct_attachments::all(conn)? {
        attached.entry(attachment.volume_id.clone()).or_default().directly.push(attachment);
    }
    let types = volume_types::ids_by_name(conn)?;
    let volumes = rows::list(conn, project)?.into_iter().map(|row| {
        let attached = attached.remove(&row.id).unwrap_or_default();
        from_row(row, attached, &types)
    });
    Ok(volumes.collect::<Result<_, DbError>>()?)
}

fn from_row(row: VolumeRow, attached: Attached, types: &BTreeMap<String, Uuid>) -> Result<Volume, DbError> {
    let attachments = attached.by_compute.into_iter().map(from_attachment).collect::<Result<_, _>>()?;
    let direct_attachments = attached.directly.into_iter().map(direct_attachments::from_row).collect::<Result<_, _>>()?;
    let image_metadata = image_metadata::read(&row)?;
    Ok(Volume {
        id: read_id("volumes.id", &row.id)?,
        name: row.name,
        description: row.description,
        project_id: row.project_id,
        user_id: row.user_id,
        status: row.status,
        size_gb: row.size_gb,
        bootable: row.bootable,
        multiattach: row.multiattach,
        availability_zone: row.availability_zone,
        volume_type_id: row.volume_type.as_ref().and_then(|name| types.get(name)).copied(),
        volume_type: row.volume_type,
        image_id: row.image_id.map(|id| read_id("volumes.image_id", &id)).transpose()?,
        snapshot_id: row.snapshot_id.map(|id| read_id("volumes.snapshot_id", &id)).transpose()?,
        source_volume: row.source_volid.map(|id| read_id("volumes.source_volid", &id)).transpose()?,
        image_metadata,
        metadata: serde_json::from_str(&row.metadata)?,
        attachments,
        direct_attachments,
        readonly: row.readonly,
        migration_status: row.migration_status,
        created_at: row.created_at.and_utc(),
        updated_at: Some(row.updated_at.and_utc()).filter(|_| row.updated_at != row.created_at),
    })
}

fn from_attachment(row: AttachmentRow) -> Result<Attachment, DbError> {
    Ok(Attachment {
        id: read_id("volume_attachments.id", &row.id)?,
        volume_id: read_id("volume_attachments.volume_id", &row.volume_id)?,
        server: read_id("volume_attachments.server_uuid", &row.server_uuid)?,
        host: row.host,
        status: row.status,
        mountpoint: row.mountpoint,
        connection_info: serde_json::from_str(&row.connection_info)?,
        attached_at: row.attached_at.map(|time| time.and_utc()),
    })
}

fn from_attachments(rows: Vec<AttachmentRow>) -> Result<Vec<Attachment>, TransactionError> {
    Ok(rows.into_iter().map(from_attachment).collect::<Result<_, DbError>>()?)
}
