//! The volume service: volumes with real bytes, and attachments with connectors.

pub mod embedded;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ServiceError;
use super::stored_bytes::StoredBytes;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;

/// A volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Volume {
    pub id: Uuid,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: String,
    pub user_id: String,
    /// `available`, `reserved`, `attaching`, `in-use`, `error`, ….
    pub status: String,
    pub size_gb: i32,
    pub bootable: bool,
    pub multiattach: bool,
    pub availability_zone: String,
    pub volume_type: Option<String>,
    /// The image that fills it.
    pub image_id: Option<Uuid>,
    /// That image as it was when its bytes were copied; empty before.
    pub image_metadata: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub attachments: Vec<Attachment>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// None before the first change.
    pub updated_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// A server's hold on a volume. Without a connector it only reserves the volume ("empty", INVARIANTS D5).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Attachment {
    pub id: Uuid,
    pub volume_id: Uuid,
    pub server: Uuid,
    /// The host that connects; none for an empty attachment.
    pub host: Option<String>,
    /// `reserved`, `attaching` (has a connector) or `attached` (completed).
    pub status: String,
    pub mountpoint: Option<String>,
    /// How the host reaches the volume; the embedded service gives `{"driver_volume_type":"local","data":{"path":…}}`.
    pub connection_info: serde_json::Value,
    pub attached_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// A volume to make.
#[derive(Clone, PartialEq, Debug)]
pub struct NewVolume {
    /// Chosen before, so that a retry makes no second volume.
    pub id: Uuid,
    pub name: Option<String>,
    /// Whose it will be, and with whose rights the image is read.
    pub caller: RequestContext,
    pub size_gb: i32,
    /// Filled from this image's bytes.
    pub image_id: Option<Uuid>,
    pub volume_type: Option<String>,
}

/// What sagas and the compute API need of the volume service.
#[async_trait]
pub trait VolumeService: Send + Sync {
    async fn volume(&self, id: Uuid) -> Result<Volume, ServiceError>;
    /// The name of the volume type that an id or a name means.
    async fn volume_type(&self, id_or_name: &str) -> Result<String, ServiceError>;
    /// Makes a volume; fine when that id exists already.
    async fn create_volume(&self, fence: Fence, volume: NewVolume) -> Result<(), ServiceError>;
    /// Replaces all bytes of a volume, which the fence's server alone holds, by an image's, read with the caller's rights. The old
    /// bytes stay when it fails. Done again, it copies again.
    async fn reimage_volume(&self, fence: Fence, caller: &RequestContext, id: Uuid, image: Uuid) -> Result<(), ServiceError>;
    /// Deletes a volume that has no attachment. Fine when there is none.
    async fn delete_volume(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// A new attachment under the caller's id; empty without a host. Fine when that id exists. Conflict when another server
    /// holds the volume and it is not multi-attach; two attachments of the same server are allowed (a move needs them).
    async fn create_attachment(
        &self,
        fence: Fence,
        id: Uuid,
        volume: Uuid,
        host: Option<&str>,
        mountpoint: Option<&str>,
    ) -> Result<Attachment, ServiceError>;
    /// Gives the attachment its connector: the answer's connection info is for that host.
    async fn update_attachment(&self, fence: Fence, id: Uuid, host: &str, mountpoint: Option<&str>) -> Result<Attachment, ServiceError>;
    /// The host has connected: the volume is in use.
    async fn complete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Removes the attachment; the volume is available when it was the last. Fine when there is none.
    async fn delete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// The attachments of a server.
    async fn attachments_of(&self, server: Uuid) -> Result<Vec<Attachment>, ServiceError>;
    /// Every attachment; for the audit.
    async fn all_attachments(&self) -> Result<Vec<Attachment>, ServiceError>;
    /// The files of all volumes that were made, for the audit.
    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError>;
}
