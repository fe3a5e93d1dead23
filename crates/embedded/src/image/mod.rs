//! The embedded image service: records in the services database, and a file per image in a folder, named by its id.
//!
//! A folder per resource has its rules, table and routes: [`images`] the records and bytes, [`members`] those with whom images are
//! shared, `import` the later arrival of bytes, `tasks` the record of imports.

pub mod images;
mod import;
mod json_schemas;
pub mod limits;
mod members;
pub mod routes;
mod schema;
mod tasks;
mod versions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use cellshift_env::Env;
use cellshift_store::{Conn, Db, DbError};
use uuid::Uuid;

use crate::ServiceError;
use crate::bytes_on_disk::{self, Keep, RecordGone, Unplaced};
use crate::stored_bytes::{self, StoredBytes};
use crate::transaction::{TransactionError, Transactions};
pub use cellshift_neighbours::image::*;
use images::records::{self as rows, ImageQuery, ImageRow};
pub use images::{ImageFilter, NewImage};
pub use members::records::ImageMember;
pub use tasks::records::ImageTask;

const SERVICE: &str = "image";
/// The property that names the move whose disks an image carries.
pub const MADE_FOR_A_MOVE: &str = "cellshift_migration";

/// The image service in this process. Share it as `Arc` or `web::Data`.
pub struct EmbeddedImage {
    db: Db,
    env: Env,
    folder: PathBuf,
}

impl Transactions for EmbeddedImage {
    const SERVICE: &'static str = SERVICE;

    fn database(&self) -> &Db {
        &self.db
    }
}

impl EmbeddedImage {
    /// Opens the service over the services database and the folder of the files, which is made if missing. Resets uploads that a crash
    /// interrupted.
    pub async fn open(db: Db, env: Env, folder: &Path) -> Result<EmbeddedImage, ServiceError> {
        let now = env.now().naive_utc();
        let images = db.read(|conn| rows::list(conn, &ImageQuery::default()));
        let images = images.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        let broken_off: Vec<String> = images.iter().filter(|image| image.status == "saving").map(|image| image.id.clone()).collect();
        // A power cut lost a file that was not durable yet; its sender still has the bytes. Other active images were durable before their
        // upload was acknowledged, so a missing file stays visible.
        let passing = images.iter().filter(|image| image.status == "active" && is_in_passing(image));
        let active = passing.map(|image| image.id.clone()).collect();
        let lost = bytes_on_disk::missing(&env, folder, active).await;
        for id in &lost {
            log::error!(image = id.as_str(); "the bytes of image {id} are not in {}: it is queued, and takes them again", folder.display());
        }
        let reset = db.write(move |conn| {
            let broken_off = broken_off.iter().map(|id| (id, "saving"));
            let lost = lost.iter().map(|id| (id, "active"));
            broken_off.chain(lost).try_for_each(|(id, was)| rows::set_status(conn, id, &[was], "queued", now).map(drop))
        });
        reset.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        let names: std::collections::BTreeSet<String> = images.into_iter().map(|image| image.id).collect();
        bytes_on_disk::open_folder(&env, SERVICE, folder, move |name| names.contains(name)).await?;
        Ok(EmbeddedImage::over(db, env, folder))
    }

    /// Makes a read-only view of the service: it repairs, moves and removes nothing.
    pub fn over(db: Db, env: Env, folder: &Path) -> EmbeddedImage {
        EmbeddedImage { db, env, folder: folder.to_owned() }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.folder.join(id.to_string())
    }

    async fn delete(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        let proof = self.write(fence, move |conn| Ok(RecordGone::with_record(id, || rows::delete(conn, &id.to_string()))?)).await?;
        // After the commit: a file without a record goes to lost+found/ at a start, but a record without a file would be false.
        bytes_on_disk::remove(&self.env, SERVICE, &self.folder, proof).await
    }

    /// Stores the bytes of an image, which then has the status `to`.
    async fn store(&self, id: Uuid, data: ImageData, keep: Keep, to: &'static str) -> Result<String, ServiceError> {
        let unplaced = bytes_on_disk::write(&self.env, SERVICE, &self.folder, data, None, keep).await?;
        let (hash, path, now) = (unplaced.sha256.clone(), self.path(id), self.env.now().naive_utc());
        self.write(None, move |conn| {
            if !rows::receive(conn, &id.to_string(), to, unplaced.size, &unplaced.sha256, now)? {
                return Err(ServiceError::Conflict(reason!("Image {id} was deleted or got other bytes during the upload.")).into());
            }
            // Inside the transaction, under the row's lock: only the winning upload replaces the file, and nobody reads it before the
            // commit.
            place(unplaced, &path, keep)
        })
        .await?;
        Ok(hash)
    }

    /// Takes the bytes of an active image again: a retry after a lost answer, or the replacement of a lost file.
    async fn take_again(&self, image: &Image, data: ImageData, keep: Keep) -> Result<String, ServiceError> {
        let (id, path) = (image.id, self.path(image.id));
        let other = || ServiceError::Conflict(reason!("Image {id} has other bytes already."));
        let is_same = |hash: &String| image.os_hash_value.as_ref() == Some(hash);
        if bytes_on_disk::missing(&self.env, &self.folder, vec![id.to_string()]).await.is_empty() {
            let hash = bytes_on_disk::hash(&self.env, SERVICE, data).await?;
            return if is_same(&hash) { Ok(hash) } else { Err(other()) };
        }
        let unplaced = bytes_on_disk::write(&self.env, SERVICE, &self.folder, data, None, keep).await?;
        let hash = unplaced.sha256.clone();
        if !is_same(&hash) {
            return Err(other());
        }
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| {
            // Under the row's lock, so that the image is not deleted meanwhile.
            if !rows::set_status(conn, &id.to_string(), &["active"], "active", now)? {
                return Err(ServiceError::Conflict(reason!("Image {id} was deleted during the upload.")).into());
            }
            place(unplaced, &path, keep)
        })
        .await?;
        Ok(hash)
    }

    async fn take(&self, id: Uuid, data: ImageData, keep: Keep) -> Result<String, ServiceError> {
        let image = self.image(id).await?;
        match image.status.as_str() {
            "active" => self.take_again(&image, data, keep).await,
            _ => self.take_first(id, data, keep, "active").await,
        }
    }

    /// Takes the bytes of an image that has none.
    async fn take_first(&self, id: Uuid, data: ImageData, keep: Keep, to: &'static str) -> Result<String, ServiceError> {
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| Ok(rows::set_status(conn, &id.to_string(), &["queued"], "saving", now)?)).await?;
        let stored = self.store(id, data, keep, to).await;
        if stored.is_err() {
            // Best effort: an image left in `saving` accepts a new upload too.
            let now = self.env.now().naive_utc();
            let undone = self.write(None, move |conn| Ok(rows::set_status(conn, &id.to_string(), &["saving"], "queued", now)?));
            if let Err(error) = undone.await {
                log::warn!(image = id.to_string().as_str(); "an image stays in status saving after its upload broke off: {error}");
            }
        }
        stored
    }
}

#[async_trait]
impl ImageService for EmbeddedImage {
    async fn image(&self, id: Uuid) -> Result<Image, ServiceError> {
        self.read(move |conn| load(conn, id)).await
    }

    async fn create_image(&self, fence: Fence, image: Image) -> Result<(), ServiceError> {
        let row = to_row(&Image { status: "queued".into(), size: None, os_hash_value: None, ..image })?;
        self.write(Some(fence), move |conn| {
            if rows::by_id(conn, &row.id)?.is_none() {
                rows::insert(conn, &row)?;
            }
            Ok(())
        })
        .await
    }

    async fn delete_image(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        // `protected` guards against users; a saga deletes only images that it made.
        self.delete(Some(fence), id).await
    }

    async fn upload(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError> {
        self.take(id, data, Keep::Durably).await
    }

    async fn upload_in_passing(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError> {
        self.take(id, data, Keep::InPassing).await
    }

    async fn download(&self, id: Uuid) -> Result<(Image, ImageData), ServiceError> {
        let image = self.image(id).await?;
        if image.status != "active" {
            return Err(ServiceError::Conflict(reason!("Image {id} is {}: it has no bytes.", image.status)));
        }
        let data = bytes_on_disk::read(&self.env, SERVICE, self.path(id)).await?;
        Ok((image, data))
    }

    async fn download_part(&self, id: Uuid, first: u64, length: u64) -> Result<ImageData, ServiceError> {
        bytes_on_disk::read_part(&self.env, SERVICE, self.path(id), first, length).await
    }

    async fn images_with_property(&self, key: &str, value: &str) -> Result<Vec<Image>, ServiceError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        let mut images = self.read(|conn| load_list(conn, &ImageQuery::default())).await?;
        images.retain(|image| image.properties.get(&key) == Some(&value));
        Ok(images)
    }

    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError> {
        let query = ImageQuery { statuses: Some(vec!["active".into(), "deactivated".into()]), ..ImageQuery::default() };
        let images = self.read(move |conn| load_list(conn, &query)).await?;
        let names = images.iter().map(|image| image.id.to_string()).collect();
        let lengths = stored_bytes::lengths(&self.env, &self.folder, names).await;
        let lengths = lengths.map_err(|e| bytes_on_disk::disk_failed(SERVICE, &self.folder, &e))?;
        let stored = images.into_iter().zip(lengths).map(|(image, length)| {
            let expected = image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
            let content = image.os_hash_value.map(|hash| (expected, hash));
            StoredBytes { id: image.id, path: self.path(image.id), length, expected, at_least: false, content }
        });
        Ok(stored.collect())
    }
}

fn place(unplaced: Unplaced, path: &Path, keep: Keep) -> Result<(), TransactionError> {
    match keep {
        Keep::Durably => bytes_on_disk::place(SERVICE, unplaced, path).map_err(TransactionError::from),
        Keep::InPassing => bytes_on_disk::rename(SERVICE, unplaced, path).map_err(TransactionError::from),
    }
}

fn load(conn: &mut Conn, id: Uuid) -> Result<Image, TransactionError> {
    let row = rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_image(id))?;
    // The members of an image that is not shared do not see it.
    let members = if row.visibility == "shared" { members::records::members(conn, &row.id)? } else { Vec::new() };
    Ok(from_row(row, members.into_iter().map(|member| member.member_id).collect())?)
}

/// Returns the selected images, newest first.
fn load_list(conn: &mut Conn, query: &ImageQuery) -> Result<Vec<Image>, TransactionError> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for member in members::records::all_members(conn)? {
        members.entry(member.image_id).or_default().push(member.member_id);
    }
    let images = rows::list(conn, query)?.into_iter().map(|row| {
        let members = members.remove(&row.id).unwrap_or_default();
        from_row(row, members)
    });
    Ok(images.collect::<Result<_, DbError>>()?)
}

/// True if the image carries the disks of a move.
fn is_in_passing(image: &ImageRow) -> bool {
    serde_json::from_str::<BTreeMap<String, String>>(&image.properties).is_ok_and(|properties| properties.contains_key(MADE_FOR_A_MOVE))
}

fn to_row(image: &Image) -> Result<ImageRow, ServiceError> {
    let json = |e: serde_json::Error| ServiceError::Invalid(reason!("image {} cannot be written: {e}", image.id));
    Ok(ImageRow {
        id: image.id.to_string(),
        name: image.name.clone(),
        status: image.status.clone(),
        visibility: image.visibility.clone(),
        owner: image.owner.clone(),
        disk_format: image.disk_format.clone(),
        container_format: image.container_format.clone(),
        min_disk: image.min_disk,
        min_ram: image.min_ram,
        size: image.size,
        os_hash_value: image.os_hash_value.clone(),
        protected: image.protected,
        hidden: image.hidden,
        properties: serde_json::to_string(&image.properties).map_err(json)?,
        tags: serde_json::to_string(&image.tags).map_err(json)?,
        created_at: image.created_at.naive_utc(),
        updated_at: image.updated_at.naive_utc(),
    })
}

fn from_row(row: ImageRow, members: Vec<String>) -> Result<Image, DbError> {
    Ok(Image {
        id: cellshift_store::columns::read_id("images.id", &row.id)?,
        name: row.name,
        status: row.status,
        visibility: row.visibility,
        owner: row.owner,
        disk_format: row.disk_format,
        container_format: row.container_format,
        min_disk: row.min_disk,
        min_ram: row.min_ram,
        size: row.size,
        os_hash_value: row.os_hash_value,
        protected: row.protected,
        hidden: row.hidden,
        properties: serde_json::from_str(&row.properties)?,
        tags: serde_json::from_str(&row.tags)?,
        members,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}
