//! The image service: image records, and their bytes with a checksum.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
pub use cellshift_env::streams::ByteStream as ImageData;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ServiceError;
use crate::stored_bytes::StoredBytes;

/// An image.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Image {
    pub id: Uuid,
    pub name: Option<String>,
    /// `queued`, `saving`, `uploading` (staged for an import), `active`, `deactivated`.
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
    /// In bytes; none before the upload.
    pub size: Option<i64>,
    /// SHA-256 in hex (`os_hash_algo` = sha256); none before the upload.
    pub os_hash_value: Option<String>,
    pub protected: bool,
    /// True if lists leave it out unless they are asked for hidden images.
    #[serde(default)]
    pub hidden: bool,
    /// Custom properties (`image_type`, `instance_uuid`, …).
    pub properties: BTreeMap<String, String>,
    pub tags: Vec<String>,
    /// The projects with which a shared image is shared.
    pub members: Vec<String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    pub updated_at: chrono::DateTime<chrono::Utc>,
}

impl Image {
    /// Returns a private image of a raw disk that waits for its bytes.
    pub fn queued(id: Uuid, owner: &str, now: chrono::DateTime<chrono::Utc>) -> Image {
        Image {
            id,
            name: None,
            status: "queued".into(),
            visibility: "private".into(),
            owner: owner.to_owned(),
            disk_format: Some("raw".into()),
            container_format: Some("bare".into()),
            min_disk: 0,
            min_ram: 0,
            size: None,
            os_hash_value: None,
            protected: false,
            hidden: false,
            properties: BTreeMap::new(),
            tags: Vec::new(),
            members: Vec::new(),
            created_at: now,
            updated_at: now,
        }
    }

    /// True if the image has bytes that somebody may read.
    pub fn has_bytes(&self) -> bool {
        matches!(self.status.as_str(), "active" | "deactivated")
    }

    /// True if the image waits for its bytes.
    pub fn takes_bytes(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "saving")
    }

    /// True if the caller's project owns the image, or the caller is an administrator.
    pub fn is_own_of(&self, caller: &RequestContext) -> bool {
        caller.is_admin() || (!caller.project_id.is_empty() && self.owner == caller.project_id)
    }

    /// True if the caller may see the image, and so read its bytes and boot from it.
    pub fn is_visible_to(&self, caller: &RequestContext) -> bool {
        self.is_own_of(caller)
            || matches!(self.visibility.as_str(), "public" | "community")
            || (self.visibility == "shared" && self.members.contains(&caller.project_id))
    }
}

/// The image service's interface for sagas and hosts.
#[async_trait]
pub trait ImageService: Send + Sync {
    /// Returns the image without a check of rights.
    async fn image(&self, id: Uuid) -> Result<Image, ServiceError>;
    /// Returns the image if the caller may see it. Otherwise fails as for an image that does not exist.
    async fn visible_image(&self, caller: &RequestContext, id: Uuid) -> Result<Image, ServiceError> {
        let image = self.image(id).await?;
        if image.is_visible_to(caller) { Ok(image) } else { Err(no_image(id)) }
    }
    /// Creates a queued image with the given id. Succeeds if it exists already.
    async fn create_image(&self, fence: Fence, image: Image) -> Result<(), ServiceError>;
    /// Deletes an image and its bytes. Succeeds if there is none.
    async fn delete_image(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Stores the bytes of an image that has none yet (or replaces an interrupted upload) and makes it active. Returns the bytes' SHA-256
    /// in hex.
    async fn upload(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError>;
    /// Stores bytes as [`ImageService::upload`] does, but a power cut may lose them: the sender keeps them until the receiver has verified
    /// them.
    async fn upload_in_passing(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError>;
    /// Reads the bytes of an active image.
    async fn download(&self, id: Uuid) -> Result<(Image, ImageData), ServiceError>;
    /// Reads at most `length` bytes of an active image, from byte `first` on.
    async fn download_part(&self, id: Uuid, first: u64, length: u64) -> Result<ImageData, ServiceError>;
    /// Returns all images with this property value. The audit looks for temporary images.
    async fn images_with_property(&self, key: &str, value: &str) -> Result<Vec<Image>, ServiceError>;
    /// Returns the files of all active images, for the audit.
    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError>;
}

/// Returns the refusal of an image that does not exist, or that the caller may not see.
pub fn no_image(id: Uuid) -> ServiceError {
    ServiceError::NotFound(reason!("No image found with ID {id}"))
}
