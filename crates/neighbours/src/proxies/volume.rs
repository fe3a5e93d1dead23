//! Volumes and snapshots, for `/os-volumes` and `/os-snapshots` of the compute API.

use std::collections::BTreeMap;

use async_trait::async_trait;
use cellshift_domain::context::RequestContext;
use uuid::Uuid;

use crate::ServiceError;
use crate::volume::{NewSnapshot, NewVolume, Snapshot, Volume, VolumeService};

/// The volume service's interface for the compute API's proxies. A volume or snapshot is made in two calls: the first answers at once, and
/// the bytes come with the second, whose outcome is the thing's status.
#[async_trait]
pub trait VolumeProxy: VolumeService {
    /// True if volumes can be made in this availability zone.
    async fn has_zone(&self, zone: &str) -> Result<bool, ServiceError>;
    /// Returns the volumes of a project, newest first.
    async fn volumes_of(&self, project: &str) -> Result<Vec<Volume>, ServiceError>;
    /// Returns a volume that the caller may see.
    async fn visible_volume(&self, caller: &RequestContext, id: Uuid) -> Result<Volume, ServiceError>;
    /// Begins a user's volume with status `creating`. OverLimit beyond the project's quota.
    async fn begin_volume(
        &self,
        volume: NewVolume,
        description: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Result<Volume, ServiceError>;
    /// Makes the bytes of a volume that was begun, and sets its status to `available`, or to `error` if that fails.
    async fn finish_volume(&self, volume: &NewVolume) -> Result<(), ServiceError>;
    /// Deletes one of the caller's volumes. Conflict if its status or an attachment or snapshot forbids it.
    async fn delete_volume_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError>;
    /// Returns the snapshots of a project, newest first.
    async fn snapshots_of(&self, project: &str) -> Result<Vec<Snapshot>, ServiceError>;
    /// Returns a snapshot that the caller may see.
    async fn visible_snapshot(&self, caller: &RequestContext, id: Uuid) -> Result<Snapshot, ServiceError>;
    /// Begins a user's snapshot with status `creating`. OverLimit beyond the project's quota.
    async fn begin_snapshot(&self, snapshot: NewSnapshot) -> Result<Snapshot, ServiceError>;
    /// Copies the bytes of a snapshot that was begun, and sets its status to `available`, or to `error` if that fails.
    async fn finish_snapshot(&self, id: Uuid) -> Result<(), ServiceError>;
    /// Deletes one of the caller's snapshots. Conflict unless it is available or in error.
    async fn delete_snapshot_for(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError>;
}
