//! The embedded image service: records in the services database, bytes in a folder, one file per image under its id.

mod records;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use uuid::Uuid;

use super::{Image, ImageData, ImageService};
pub use crate::db::services::image::ImageMember;
use crate::db::services::image::{self as rows, ImageQuery, ImageRow};
use crate::db::{Conn, Db, DbError};
use crate::domain::fence::Fence;
use crate::env::Env;
use crate::services::ServiceError;
use crate::services::bytes_on_disk::{self, Keep};
use crate::services::transaction::{Refusal, Transactions};
pub use records::{ImageFilter, NewImage};

const SERVICE: &str = "image";

/// The image service that lives in this process. Share it as `Arc` or `web::Data`.
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
    /// Opens the service over the services database and the folder of the bytes, which is made when there is none. Uploads
    /// that a crash broke off are as if they had never begun.
    pub async fn open(db: Db, env: Env, folder: &Path) -> Result<EmbeddedImage, ServiceError> {
        let now = env.now().naive_utc();
        let known = db.read(|conn| rows::list(conn, &ImageQuery::default()));
        let known = known.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        let broken_off: Vec<String> = known.iter().filter(|image| image.status == "saving").map(|image| image.id.clone()).collect();
        let active = known.iter().filter(|image| image.status == "active").map(|image| image.id.clone()).collect();
        // The power failed after the commit and before the file's name was durable: its uploader was never answered.
        let lost = bytes_on_disk::missing(&env, folder, active).await;
        let reset = db.write(move |conn| {
            let broken_off = broken_off.iter().map(|id| (id, "saving"));
            let lost = lost.iter().map(|id| (id, "active"));
            broken_off.chain(lost).try_for_each(|(id, was)| rows::set_status(conn, id, &[was], "queued", now).map(drop))
        });
        reset.await.map_err(|e| ServiceError::from_db(SERVICE, e))?;
        let known: std::collections::BTreeSet<String> = known.into_iter().map(|image| image.id).collect();
        bytes_on_disk::open_folder(&env, SERVICE, folder, move |name| known.contains(name)).await?;
        Ok(EmbeddedImage { db, env, folder: folder.to_owned() })
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.folder.join(id.to_string())
    }

    async fn delete(&self, fence: Option<Fence>, id: Uuid) -> Result<(), ServiceError> {
        self.write(fence, move |conn| Ok(rows::delete(conn, &id.to_string())?)).await?;
        // After the commit: bytes without a record are swept at the next start, a record without bytes would lie.
        bytes_on_disk::remove(&self.env, SERVICE, self.path(id)).await
    }

    async fn store(&self, id: Uuid, data: ImageData, keep: Keep) -> Result<String, ServiceError> {
        let unplaced = bytes_on_disk::write(&self.env, SERVICE, &self.folder, data, None, keep).await?;
        let (hash, path, now) = (unplaced.sha256.clone(), self.path(id), self.env.now().naive_utc());
        self.write(None, move |conn| {
            if !rows::activate(conn, &id.to_string(), unplaced.size, &unplaced.sha256, now)? {
                return Err(ServiceError::Conflict(format!("Image {id} was deleted or got other bytes during the upload.")).into());
            }
            // Inside the transaction, under the row's lock: only the upload that wins touches the place, and before its commit
            // nobody reads it.
            bytes_on_disk::rename(SERVICE, unplaced, &path).map_err(Refusal::from)
        })
        .await?;
        self.settle(keep).await?;
        Ok(hash)
    }

    /// Makes the names of placed bytes durable. Outside the transaction, where all writers of the database would wait for this
    /// disk; `open` copes with a power cut in between.
    async fn settle(&self, keep: Keep) -> Result<(), ServiceError> {
        match keep {
            Keep::Durably => bytes_on_disk::flush_folder(&self.env, SERVICE, &self.folder).await,
            Keep::InPassing => Ok(()),
        }
    }

    async fn take(&self, id: Uuid, data: ImageData, keep: Keep) -> Result<String, ServiceError> {
        let image = self.image(id).await?;
        if image.status == "active" {
            // The same bytes again: a retry whose first answer was lost.
            let hash = bytes_on_disk::hash(&self.env, SERVICE, data).await?;
            return match image.os_hash_value {
                Some(known) if known == hash => self.settle(keep).await.map(|()| hash),
                _ => Err(ServiceError::Conflict(format!("Image {id} has other bytes already."))),
            };
        }
        let now = self.env.now().naive_utc();
        self.write(None, move |conn| Ok(rows::set_status(conn, &id.to_string(), &["queued"], "saving", now)?)).await?;
        let stored = self.store(id, data, keep).await;
        if stored.is_err() {
            // Best effort: an image left as `saving` takes a new upload just as well.
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
        // `protected` guards against users; a saga deletes only what it made.
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
            return Err(ServiceError::Conflict(format!("Image {id} is {}: it has no bytes.", image.status)));
        }
        let data = bytes_on_disk::read(&self.env, SERVICE, self.path(id)).await?;
        Ok((image, data))
    }

    async fn images_with_property(&self, key: &str, value: &str) -> Result<Vec<Image>, ServiceError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        let mut images = self.read(|conn| load_list(conn, &ImageQuery::default())).await?;
        images.retain(|image| image.properties.get(&key) == Some(&value));
        Ok(images)
    }
}

fn load(conn: &mut Conn, id: Uuid) -> Result<Image, Refusal> {
    let row = rows::by_id(conn, &id.to_string())?.ok_or_else(|| no_image(&id.to_string()))?;
    let members = rows::members(conn, &row.id)?;
    Ok(from_row(row, &members)?)
}

/// The images that match, newest first.
fn load_list(conn: &mut Conn, query: &ImageQuery) -> Result<Vec<Image>, Refusal> {
    let members = rows::all_members(conn)?;
    let images = rows::list(conn, query)?.into_iter().map(|row| from_row(row, &members));
    Ok(images.collect::<Result<_, DbError>>()?)
}

fn no_image(id: &str) -> ServiceError {
    ServiceError::NotFound(format!("No image found with ID {id}"))
}

fn to_row(image: &Image) -> Result<ImageRow, ServiceError> {
    let json = |e: serde_json::Error| ServiceError::Invalid(format!("image {} cannot be written: {e}", image.id));
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
        properties: serde_json::to_string(&image.properties).map_err(json)?,
        tags: serde_json::to_string(&image.tags).map_err(json)?,
        created_at: image.created_at.naive_utc(),
        updated_at: image.updated_at.naive_utc(),
    })
}

/// `members` may hold other images' as well.
fn from_row(row: ImageRow, members: &[ImageMember]) -> Result<Image, DbError> {
    let members = members.iter().filter(|member| member.image_id == row.id).map(|member| member.member_id.clone()).collect();
    Ok(Image {
        id: crate::db::services::read_id("images.id", &row.id)?,
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
        properties: serde_json::from_str(&row.properties)?,
        tags: serde_json::from_str(&row.tags)?,
        members,
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}
