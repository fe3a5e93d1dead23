//! The image service: image records, and their bytes with a checksum.

pub mod embedded;

use std::collections::BTreeMap;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ServiceError;
use super::stored_bytes::StoredBytes;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;

/// An image's bytes on their way.
pub type ImageData = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// An image.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Image {
    pub id: Uuid,
    pub name: Option<String>,
    /// `queued`, `saving`, `active`, `deleted`.
    pub status: String,
    /// `public`, `private`, `shared` or `community`.
    pub visibility: String,
    /// The project that owns it.
    pub owner: String,
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    /// In GiB.
    pub min_disk: i32,
    /// In MiB.
    pub min_ram: i32,
    /// Bytes; none before the upload.
    pub size: Option<i64>,
    /// SHA-256 in hex (`os_hash_algo` = sha256); none before the upload.
    pub os_hash_value: Option<String>,
    pub protected: bool,
    /// Custom properties (`image_type`, `instance_uuid`, …).
    pub properties: BTreeMap<String, String>,
    pub tags: Vec<String>,
    /// Projects that a shared image is shared with.
    pub members: Vec<String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    pub updated_at: chrono::DateTime<chrono::Utc>,
}

impl Image {
    /// True when the image is the caller's project's own, or the caller an administrator.
    pub fn is_own_of(&self, caller: &RequestContext) -> bool {
        caller.is_admin() || (!caller.project_id.is_empty() && self.owner == caller.project_id)
    }

    /// True when the caller may see the image, and so read its bytes and boot from it.
    pub fn is_visible_to(&self, caller: &RequestContext) -> bool {
        self.is_own_of(caller)
            || matches!(self.visibility.as_str(), "public" | "community")
            || (self.visibility == "shared" && self.members.contains(&caller.project_id))
    }
}

/// What a saga or a host needs of the image service.
#[async_trait]
pub trait ImageService: Send + Sync {
    /// The image, whoever asks.
    async fn image(&self, id: Uuid) -> Result<Image, ServiceError>;
    /// The image, when the caller may see it; otherwise the same error as for one that does not exist.
    async fn visible_image(&self, caller: &RequestContext, id: Uuid) -> Result<Image, ServiceError> {
        let image = self.image(id).await?;
        if image.is_visible_to(caller) { Ok(image) } else { Err(no_image(id)) }
    }
    /// Creates a queued image under the caller's id; fine when it exists already.
    async fn create_image(&self, fence: Fence, image: Image) -> Result<(), ServiceError>;
    /// Deletes an image and its bytes; fine when there is none.
    async fn delete_image(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Stores the bytes of an image that has none yet (or replaces a broken-off upload) and makes it active. Gives the bytes'
    /// SHA-256 in hex.
    async fn upload(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError>;
    /// The same for bytes that their sender keeps until their receiver has verified them: a power cut may take them.
    async fn upload_in_passing(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError>;
    /// The bytes of an active image.
    async fn download(&self, id: Uuid) -> Result<(Image, ImageData), ServiceError>;
    /// All images that carry this property value; the audit looks for temporary ones.
    async fn images_with_property(&self, key: &str, value: &str) -> Result<Vec<Image>, ServiceError>;
    /// The files of all active images, for the audit.
    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError>;
}

fn no_image(id: Uuid) -> ServiceError {
    ServiceError::NotFound(format!("No image found with ID {id}"))
}
