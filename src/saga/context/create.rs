//! The part of a create.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{chooses_a_host, part};
use super::transfers::image_read;
use super::{Candidates, HostNeed, Part, Place, Rules};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::quota_grant::CheckedRoom;
use crate::domain::request_spec::RequestSpec;
use crate::domain::secret::Sealed;
use crate::domain::server::TaskState;
use crate::services::volume::VolumeSource;

/// A server to make. Ports and volumes are named or described; new ones have their ids already.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateRequest {
    /// The record, its metadata and tags, as the API shows them until a cell has the server.
    pub instance: Box<InstanceBundle>,
    pub request_spec: Box<RequestSpec>,
    /// The interfaces, in the guest's order.
    pub networks: Vec<RequestedNetwork>,
    /// Block devices, the root first if it is a volume.
    pub volumes: Vec<RequestedVolume>,
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// The configuration that the guest reads at its first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends; its user data until the build request has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// The project's room. Requests of older releases have none, and are not limited.
    #[serde(default = "CheckedRoom::without_second_check")]
    pub room: CheckedRoom,
}

impl CreateRequest {
    /// Removes user data and files from the record, where older releases kept them.
    fn forget_files(&mut self) {
        self.instance.instance.user_data = None;
        self.instance.instance.injected_files = serde_json::Value::Array(Vec::new());
    }
}

/// A network interface that a server is to get.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestedNetwork {
    /// The port to use, or the id of the port to make.
    pub port_id: Uuid,
    /// The network of a port to make; none if the port exists.
    pub network_id: Option<Uuid>,
    pub fixed_ip: Option<String>,
    pub tag: Option<String>,
    /// The security groups of a port to make; none for the project's default group.
    #[serde(default)]
    pub security_groups: Vec<Uuid>,
}

/// A volume of a new server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestedVolume {
    /// The volume to use, or the id of the volume to make.
    pub volume_id: Uuid,
    /// The size in GiB of a volume to make; none if the volume exists.
    pub create_gb: Option<i32>,
    /// The image that fills a volume to make.
    pub image_id: Option<Uuid>,
    /// The snapshot that fills a volume to make.
    #[serde(default)]
    pub snapshot_id: Option<Uuid>,
    /// The type of a volume to make; none for the default.
    #[serde(default)]
    pub volume_type: Option<String>,
    pub boot_index: Option<i32>,
    pub device_name: String,
    pub delete_on_termination: bool,
    pub tag: Option<String>,
    #[serde(flatten)]
    pub shown_as: DeviceForm,
}

/// The form in which the guest is to see a disk. The simulated hypervisor has one form for all disks, so it is only kept: on the record, through
/// moves, and for the servers that are made of an image of this one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_format: Option<String>,
}

impl RequestedVolume {
    /// Returns the bytes that fill a volume to make.
    pub fn source(&self) -> VolumeSource {
        match (self.image_id, self.snapshot_id) {
            (Some(image), _) => VolumeSource::Image(image),
            (None, Some(snapshot)) => VolumeSource::Snapshot(snapshot),
            (None, None) => VolumeSource::Blank,
        }
    }
}

part! {
    /// A new server.
    Create of Box<CreateRequest> {
        #[serde(flatten)]
        candidates: Candidates,
    }
}

impl Part for Create {
    fn rules(&self) -> Rules {
        Rules { first_task_state: Some(TaskState::Scheduling), copies_disks: true, ..Rules::new("create", &[]) }
    }

    chooses_a_host!();

    fn here(&self) -> Option<&Place> {
        self.target.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        let image = self.request.request_spec.image_id.filter(|_| !self.volume_backed);
        Vec::from_iter(image_read(self.target.as_ref(), image))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.here() {
            None => vec![("conductor_schedule_and_build_instances", None)],
            here => vec![("compute__do_build_and_run_instance", here)],
        }
    }

    /// The request comes long before the choice of the cell that records the action.
    fn began_at(&self) -> Option<DateTime<Utc>> {
        Some(self.request.instance.instance.created_at)
    }

    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        Some((&self.request.config_drive, &self.request.sealed))
    }

    fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<Sealed>) {
        (self.request.config_drive, self.request.sealed) = (config, sealed);
        self.request.forget_files();
    }
}
