//! The volume service: volumes with real bytes, and attachments with connectors.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ServiceError;
use crate::stored_bytes::StoredBytes;

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
    pub volume_type_id: Option<Uuid>,
    /// The image that the volume's bytes come from, at first or second hand.
    pub image_id: Option<Uuid>,
    /// The snapshot that the volume was made from.
    pub snapshot_id: Option<Uuid>,
    /// The volume that this one was made from.
    pub source_volume: Option<Uuid>,
    /// The image's metadata at the time of the copy; empty before it.
    pub image_metadata: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    /// The compute service's attachments.
    pub attachments: Vec<Attachment>,
    /// The attachments that users have recorded.
    pub direct_attachments: Vec<DirectAttachment>,
    /// True if the volume is attached for reading only. None until somebody sets the flag or records an attachment.
    pub readonly: Option<bool>,
    /// The status that an administrator has set; there are no migrations.
    pub migration_status: Option<String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// None before the first change.
    pub updated_at: Option<chrono::DateTime<chrono::Utc>>,
}

impl Volume {
    /// Returns why no further server can get the volume now; none if one can. An administrator may have reset the status of a volume that
    /// is attached to `available`.
    pub fn refuses_servers(&self) -> Option<String> {
        let Volume { id, status, .. } = self;
        let others = self.attachments.iter().map(|one| Some(one.server)).chain(self.direct_attachments.iter().map(|one| one.server));
        let others: BTreeSet<Option<Uuid>> = others.collect();
        if status == "available" && !self.multiattach && !others.is_empty() {
            let servers: Vec<String> = others.into_iter().flatten().map(|server| server.to_string()).collect();
            return Some(format!("Invalid volume: volume {id} is already attached to instances: {}", servers.join(" ")));
        }
        if status != "available" && !(self.multiattach && status == "in-use") {
            return Some(format!("Invalid volume: volume '{id}' status must be 'available'. Currently in '{status}'"));
        }
        (self.readonly == Some(true)).then(|| format!("Invalid volume: volume '{id}' is read-only, and servers attach for writing."))
    }

    /// Returns the metadata with the keys that Cinder adds for every reader: the read-only flag, and the mode of what users have attached.
    pub fn shown_metadata(&self) -> BTreeMap<&str, &str> {
        let mut metadata: BTreeMap<&str, &str> = self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if let Some(readonly) = self.readonly {
            // Spelled as in Cinder.
            metadata.insert("readonly", if readonly { "True" } else { "False" });
        }
        if let Some(attachment) = self.direct_attachments.iter().rfind(|one| one.attached_at.is_some()) {
            metadata.insert("attached_mode", attachment.mode.as_str());
        }
        metadata
    }
}

/// An attachment of a volume to a server. Without a connector it only reserves the volume ("empty", INVARIANTS D5).
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
    /// The host's way to the volume. The embedded service gives `{"driver_volume_type":"local","data":{"path":…}}`.
    pub connection_info: serde_json::Value,
    pub attached_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// An attachment that a user recorded through the volume API. It connects nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DirectAttachment {
    pub id: Uuid,
    pub volume_id: Uuid,
    /// None if only a host is named.
    pub server: Option<Uuid>,
    pub host: Option<String>,
    /// Empty if none is named.
    pub mountpoint: String,
    pub mode: AttachMode,
    /// `reserved`, `attaching` (a host is named) or `attached`.
    pub status: String,
    /// None before it is attached.
    pub attached_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// The accesses that an attachment allows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub enum AttachMode {
    #[default]
    #[serde(rename = "rw")]
    ReadWrite,
    #[serde(rename = "ro")]
    ReadOnly,
}

impl AttachMode {
    /// Returns the mode's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            AttachMode::ReadWrite => "rw",
            AttachMode::ReadOnly => "ro",
        }
    }
}

/// A volume to make.
#[derive(Clone, PartialEq, Debug)]
pub struct NewVolume {
    /// Chosen in an earlier step, so that a retry makes no second volume.
    pub id: Uuid,
    pub name: Option<String>,
    /// The future owner, whose rights also allow reading the image.
    pub caller: RequestContext,
    pub size_gb: i32,
    pub source: VolumeSource,
    pub volume_type: Option<String>,
}

/// The name by which the volume service knows the default volume type of the caller's project.
pub const DEFAULT_OF_PROJECT: &str = "default";

/// The bytes that fill a new volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeSource {
    /// None: every byte is zero.
    Blank,
    Image(Uuid),
    Snapshot(Uuid),
    Volume(Uuid),
    Backup(Uuid),
}

/// A snapshot of a volume: a copy of its bytes at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    pub id: Uuid,
    pub volume_id: Uuid,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: String,
    pub user_id: String,
    /// `creating`, `available`, `error`, ….
    pub status: String,
    /// The reported progress, such as `80%`; none if the status says it.
    pub progress: Option<String>,
    /// The size of the volume at that time.
    pub size_gb: i32,
    pub bootable: bool,
    /// The metadata of the image that the bytes come from; empty if there is none.
    pub image_metadata: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub created_at: chrono::DateTime<chrono::Utc>,
    /// None before the first change.
    pub updated_at: Option<chrono::DateTime<chrono::Utc>>,
}

/// A snapshot to take.
#[derive(Clone, PartialEq, Debug)]
pub struct NewSnapshot {
    /// Chosen in an earlier step, so that a retry takes no second snapshot.
    pub id: Uuid,
    pub volume: Uuid,
    pub name: Option<String>,
    pub description: Option<String>,
    pub metadata: BTreeMap<String, String>,
    /// The future owner, who must have the right to the volume.
    pub caller: RequestContext,
    /// Takes the snapshot of a volume in use, too: it has what a guest would find after a power cut.
    pub force: bool,
}

/// The volume service's interface for sagas and the compute API.
#[async_trait]
pub trait VolumeService: Send + Sync {
    async fn volume(&self, id: Uuid) -> Result<Volume, ServiceError>;
    async fn snapshot(&self, id: Uuid) -> Result<Snapshot, ServiceError>;
    /// Returns the name of the volume type with this id or name. NotFound if the caller may not use it.
    async fn volume_type(&self, caller: &RequestContext, id_or_name: &str) -> Result<String, ServiceError>;
    /// Makes a volume. Succeeds if the id exists already.
    async fn create_volume(&self, fence: Fence, volume: NewVolume) -> Result<(), ServiceError>;
    /// Replaces all bytes of a volume with an image's. Only the fence's server may have the volume attached, and the caller must have the
    /// right to the image. The old bytes stay if the call fails. A repetition copies again.
    async fn reimage_volume(&self, fence: Fence, caller: &RequestContext, id: Uuid, image: Uuid) -> Result<(), ServiceError>;
    /// Deletes a volume without attachments. Succeeds if there is none. A volume with snapshots stays for its user, as in Nova.
    async fn delete_volume(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Fails with OverLimit if a snapshot of each of these volumes of one project would exceed the project's quota.
    async fn check_room_for_snapshots(&self, volumes: Vec<Uuid>) -> Result<(), ServiceError>;
    /// Stores a snapshot as `creating`. Succeeds if the id exists already.
    async fn create_snapshot(&self, fence: Fence, snapshot: NewSnapshot) -> Result<(), ServiceError>;
    /// Copies the volume's bytes into the snapshot, which is then available. Succeeds if it is available already.
    async fn take_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Deletes a snapshot. Succeeds if there is none.
    async fn delete_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Makes an attachment with the given id, empty without a host. Succeeds if the id exists. Conflict if another server has the volume
    /// and it is not multi-attach; a server may have two attachments, because a move needs them.
    async fn create_attachment(
        &self,
        fence: Fence,
        id: Uuid,
        volume: Uuid,
        host: Option<&str>,
        mountpoint: Option<&str>,
    ) -> Result<Attachment, ServiceError>;
    /// Gives the attachment its connector. The connection info in the answer is for that host.
    async fn update_attachment(&self, fence: Fence, id: Uuid, host: &str, mountpoint: Option<&str>) -> Result<Attachment, ServiceError>;
    /// Records that the host has connected: the volume is in use.
    async fn complete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Removes the attachment. After its last attachment the volume is available. Succeeds if there is none.
    async fn delete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError>;
    /// Returns the attachments of a server.
    async fn attachments_of(&self, server: Uuid) -> Result<Vec<Attachment>, ServiceError>;
    /// Returns all attachments, for the audit.
    async fn all_attachments(&self) -> Result<Vec<Attachment>, ServiceError>;
    /// Returns the files of all volumes that were made, for the audit.
    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError>;
}
