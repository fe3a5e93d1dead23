//! The part of a snapshot or a backup: an image gets the server's root disk, or names snapshots of its volumes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::transfers::image_stored;
use super::{HostNeed, Part, Place, Rules};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::server::{TaskState, VmState};

/// A request for an image of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CreateImageRequest {
    pub name: String,
    /// The image's further properties.
    pub metadata: BTreeMap<String, String>,
    /// None for a snapshot.
    pub backup: Option<Backup>,
}

/// The kind of a backup, and how many of them are kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backup {
    /// `daily`, `weekly`, or any word of the user's.
    pub kind: String,
    /// The number of the newest backups of this kind that are kept.
    pub rotation: usize,
}

part! {
    /// A snapshot or a backup.
    CreateImage of Box<CreateImageRequest> {
        /// The volumes whose snapshots the image of a volume-backed server names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        volumes_to_snapshot: Vec<Uuid>,
    }
}

/// Returns the id of the image that an operation makes.
pub fn image_of_operation(operation: Uuid) -> Uuid {
    Uuid::new_v5(&operation, b"image")
}

impl CreateImage {
    /// Returns the image's id.
    pub fn image(&self) -> Uuid {
        image_of_operation(self.saga)
    }

    /// Returns the id of a volume's snapshot.
    pub fn snapshot_of(&self, volume: Uuid) -> Uuid {
        self.derived_id(&format!("snapshot:{volume}"))
    }
}

impl Part for CreateImage {
    fn rules(&self) -> Rules {
        Rules {
            first_task_state: Some(if self.request.backup.is_some() { TaskState::ImageBackup } else { TaskState::ImageSnapshotPending }),
            copies_disks: true,
            ..Rules::new(
                if self.request.backup.is_some() { "createBackup" } else { "createImage" },
                &[VmState::Active, VmState::Stopped, VmState::Paused, VmState::Suspended],
            )
        }
    }

    fn host_need(&self) -> HostNeed {
        // The image of a root volume is snapshots of volumes, which the volume service makes.
        if self.volume_backed { HostNeed::Nothing } else { HostNeed::Guest }
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        let image = (!self.volume_backed).then(|| self.image());
        Vec::from_iter(image_stored(self.source.as_ref(), image))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        let event = if self.request.backup.is_some() { "compute_backup_instance" } else { "compute_snapshot_instance" };
        vec![(event, self.here())]
    }
}
