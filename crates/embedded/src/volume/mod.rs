//! The volume service: records in the services database, and a file per volume, snapshot and backup in a folder, named by its id.
//!
//! Each folder is a resource of the API: its rules, and beside them its `records`, its `routes`, and its `bodies` where they have a file of
//! their own. [`EmbeddedVolume`] is the whole service, and implements [`VolumeService`] for the compute service.
//!
//! - `volumes`, with `filling`, which writes the bytes of volumes, and `uploads`, which makes images of them.
//! - `snapshots` and `backups` copy the bytes.
//! - `attachments` attaches volumes for the compute service; `direct_attachments` records what users attach themselves.
//! - `volume_types`, `default_types` and `qos_specs` say what volumes can be; `quotas` limits projects.
//! - `transfers` gives volumes to other projects, `messages` tells users why a volume was not made, and `processes` lists the programs.
//!
//! All resources share `schema` (the tables) with `statements`, `rules` (who may use a thing), [`routes`] (the list of their routes, and
//! errors), `paging` (lists), `fields` (checks of values) and `metadata`.

mod attachments;
mod backups;
mod default_types;
mod direct_attachments;
mod fields;
mod filling;
mod messages;
mod metadata;
mod paging;
mod processes;
mod qos_specs;
mod quotas;
pub mod routes;
mod rules;
mod schema;
mod snapshots;
mod statements;
mod transfers;
mod uploads;
mod versions;
mod volume_types;
mod volumes;
mod zones;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_env::Env;
use cellshift_store::columns::read_id;
use cellshift_store::{Conn, Db};
use uuid::Uuid;

use self::attachments::from_attachments;
use self::volumes::reading::load;
use self::volumes::records::{self as rows, VolumeRow};
use crate::ServiceError;
use crate::bytes_on_disk::{self, RecordGone};
use crate::image::ImageService;
use crate::stored_bytes::{self, StoredBytes};
use crate::transaction::{TransactionError, Transactions};
pub use backups::{Backup, BackupUpdate, NewBackup, RESTORED, Restore, RestoreTarget};
pub use cellshift_neighbours::volume::*;
pub use default_types::DefaultType;
pub use direct_attachments::{AttachmentRequest, Connector, NewAttachment};
pub use messages::Message;
pub use processes::{BACKEND, CAPABILITIES, Process, VOLUME_PROCESS};
pub use qos_specs::QosSpecs;
pub use quotas::{OF_TYPES, QUOTA_RESOURCES, QuotaUsage};
pub use snapshots::SnapshotUpdate;
pub use transfers::Transfer;
pub use volume_types::{DEFAULT_OF_PROJECT, DEFAULT_TYPE, MULTIATTACH_TYPE, TypeUpdate, VolumeType};
pub use volumes::{StatusReset, StoreRoom, VolumeUpdate};

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
        let names = db.write(move |conn| {
            let volumes = rows::list(conn, None)?;
            for VolumeRow { id, status, .. } in &volumes {
                match status.as_str() {
                    "creating" => rows::set_status(conn, id, &["creating"], "error", now)?,
                    uploads::UPLOADING => rows::set_status(conn, id, &[uploads::UPLOADING], "available", now)?,
                    _ => continue,
                };
            }
            // The bytes of an unfinished volume cannot be trusted, so their file counts as unknown.
            let ids = volumes.into_iter().filter(|volume| volume.status != "creating").map(|volume| volume.id);
            let ids = ids.chain(snapshots::give_up_unfinished(conn, now)?).chain(backups::give_up_unfinished(conn, now)?);
            Ok(ids.collect::<BTreeSet<_>>())
        });
        let names = names.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        bytes_on_disk::open_folder(&env, SERVICE, folder, move |name| names.contains(name)).await?;
        Ok(EmbeddedVolume::over(db, env, folder, images))
    }

    /// Makes a read-only view of the service: it repairs, moves and removes nothing.
    pub fn over(db: Db, env: Env, folder: &Path, images: Arc<dyn ImageService>) -> EmbeddedVolume {
        EmbeddedVolume { db, env, folder: folder.to_owned(), images }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Deletes a record by `delete`, and then the file with this id.
    async fn delete_with_file<F>(&self, fence: Option<Fence>, id: Uuid, delete: F) -> Result<(), ServiceError>
    where
        F: FnOnce(&mut Conn) -> Result<(), TransactionError> + Send + 'static,
    {
        let proof = self.write(fence, move |conn| RecordGone::with_record(id, || delete(conn))).await?;
        // After the commit: a file without a record goes to lost+found/ at a start, but a record without a file would be false.
        bytes_on_disk::remove(&self.env, SERVICE, &self.folder, proof).await
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
        self.read(move |conn| from_attachments(attachments::records::of_server(conn, &server.to_string())?)).await
    }

    async fn all_attachments(&self) -> Result<Vec<Attachment>, ServiceError> {
        self.read(|conn| from_attachments(attachments::records::all(conn)?)).await
    }

    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError> {
        let all = |conn: &mut Conn| Ok([rows::made(conn)?, snapshots::records::made(conn)?, backups::records::made(conn)?].concat());
        let volumes = self.read(all).await?;
        let names = volumes.iter().map(|volume| volume.id.clone()).collect();
        let lengths = stored_bytes::lengths(&self.env, &self.folder, names).await;
        let lengths = lengths.map_err(|e| bytes_on_disk::disk_failed(SERVICE, &self.folder, &e))?;
        let stored = volumes.into_iter().zip(lengths).map(|(volume, length)| {
            let id = read_id("volumes.id", &volume.id).map_err(|e| ServiceError::from_db(SERVICE, e))?;
            let written = volume.made_size.and_then(|size| u64::try_from(size).ok());
            let content = written.zip(volume.made_sha256);
            let expected = gibibytes(volume.size_gb);
            Ok(StoredBytes { id, path: self.path(id), length, expected, at_least: true, content })
        });
        stored.collect()
    }
}

fn gibibytes(size_gb: i32) -> u64 {
    u64::try_from(size_gb).unwrap_or(0) << 30
}
