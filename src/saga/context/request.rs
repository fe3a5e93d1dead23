//! The requests of operations: their callers' words, with the ids of all that is to be made. `Request` itself is made from the list of
//! operations in `mod.rs`.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::Request;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::flavor::Flavor;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::quota::Limits;
use crate::domain::quota_grant::CheckedRoom;
use crate::domain::request_spec::RequestSpec;
use crate::domain::secret::Sealed;
use crate::domain::wanted_zone::WantedZone;
use crate::services::volume::VolumeSource;

impl Request {
    /// Returns the operation that a queued delete asks for.
    pub fn of_delete(request: &DeleteRequest) -> Request {
        if request.deferred { Request::SoftDelete } else { Request::Delete }
    }
}

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
    #[serde(default = "CheckedRoom::final_word")]
    pub room: CheckedRoom,
}

impl CreateRequest {
    /// Removes user data and files from the record, where older releases kept them.
    pub(super) fn forget_files(&mut self) {
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

/// The changes of a rebuild.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RebuildRequest {
    pub image_id: Uuid,
    /// The demands of the image on hosts.
    #[serde(default)]
    pub image_properties: BTreeMap<String, String>,
    /// True if the root disk is a volume and the image fills it anew.
    #[serde(default)]
    pub reimages_root_volume: bool,
    pub name: Option<String>,
    pub description: Option<Option<String>>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub key_name: Option<Option<String>>,
    /// The configuration that the guest reads at its next first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends; its user data if the request brings new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A rescue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RescueRequest {
    /// The image from which the guest boots.
    pub image_id: Uuid,
    /// The configuration that the guest reads from the image's disk.
    pub config_drive: serde_json::Value,
    /// The guest's password, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// Another password for the guest's administrator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChangePasswordRequest {
    /// The password, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A resize, or a cold migration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResizeRequest {
    /// The flavor after the move.
    pub flavor: Box<Flavor>,
    /// True for a migration: the flavor stays the same.
    pub migrate: bool,
    /// A host that an administrator demands.
    pub host: Option<String>,
    pub cross_cell_allowed: bool,
}

/// A confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ConfirmRequest {
    /// True if the resize waited for longer than the operator's window.
    pub automatic: bool,
    /// The only move that may be confirmed; none allows whichever waits. Its requester has looked earlier, and the user may have moved since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Uuid>,
}

/// An evacuation: the server's host is down, and another host builds its guest anew.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EvacuateRequest {
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// True if the demanded host is taken without the scheduler's filters.
    pub bypasses_scheduler: bool,
    /// True if the administrator forced that with `force`: the action's name says so.
    pub forced: bool,
    /// True if the guest of an active server is built but not started.
    pub stays_off: bool,
    /// The image of the root disk; none if the root disk is a volume.
    pub image_id: Option<Uuid>,
    /// The configuration that the guest reads at its first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A volume to attach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttachRequest {
    pub volume_id: Uuid,
    pub device_name: Option<String>,
    pub tag: Option<String>,
    pub delete_on_termination: bool,
}

/// A volume to detach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DetachRequest {
    pub volume_id: Uuid,
}

/// A shelve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShelveRequest {
    /// True if the server leaves its host at once.
    pub offload: bool,
}

/// An unshelve.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UnshelveRequest {
    /// The zone of the server from now on.
    pub zone: WantedZone,
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// The project's limits, checked again once the room is claimed; none if the server counts while it is shelved.
    pub limits: Option<Limits>,
    /// The limits that the server's user has beside the project's, checked with them.
    #[serde(default)]
    pub user_limits: Limits,
    /// True if a host of another cell may get the server.
    #[serde(default)]
    pub cross_cell_allowed: bool,
}

impl UnshelveRequest {
    /// True if the request says where the server must go, which only a server without a host can follow.
    pub fn names_a_place(&self) -> bool {
        self.host.is_some() || self.zone != WantedZone::AsBefore
    }
}

/// Stores the request of one operation in the form of [`Request`].
pub(super) mod as_request {
    use super::*;

    pub fn serialize<S: Serializer, R: Clone + Into<Request>>(own: &R, serializer: S) -> Result<S::Ok, S::Error> {
        own.clone().into().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, R: TryFrom<Request>>(deserializer: D) -> Result<R, D::Error> {
        R::try_from(Request::deserialize(deserializer)?).map_err(|_| D::Error::custom("the request is another operation's"))
    }
}
