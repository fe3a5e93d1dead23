//! A server's fields in a notification, in the form of Nova's versioned instance payloads.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::flavor::Flavor;
use crate::moment;
use crate::server::{PowerState, TaskState, VmState};

/// A fixed or floating address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpAddress {
    /// The network's name.
    pub label: String,
    /// The port's MAC address.
    pub mac: String,
    /// The address.
    pub address: String,
    /// 4 or 6.
    pub version: u8,
    /// The port.
    pub port_id: Uuid,
    /// `tap` and the beginning of the port's id, if known.
    pub device_name: Option<String>,
}

/// A volume of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockDevice {
    /// The volume.
    pub volume_id: Uuid,
    /// For example `/dev/vdb`.
    pub device_name: String,
    /// The tag given at the attachment.
    pub tag: Option<String>,
    /// 0 for the boot device.
    pub boot_index: Option<i32>,
    /// True if the volume is deleted with the server.
    pub delete_on_termination: bool,
}

/// The error in the payload of an error notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExceptionPayload {
    /// The error's class name.
    pub exception: String,
    /// The error's message.
    pub exception_message: String,
}

/// A server's fields in notifications.
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceFields {
    /// The server.
    pub uuid: Uuid,
    /// The owner's id.
    pub user_id: String,
    /// The project's id.
    pub tenant_id: String,
    /// Name.
    pub display_name: String,
    /// Description.
    pub display_description: Option<String>,
    /// Host name inside the guest.
    pub host_name: Option<String>,
    /// The compute host; none before one is chosen.
    pub host: Option<String>,
    /// The hypervisor's name.
    pub node: Option<String>,
    /// The zone of the host.
    pub availability_zone: Option<String>,
    /// The present flavor.
    pub flavor: Flavor,
    /// The image; none for a volume-backed server.
    pub image_uuid: Option<Uuid>,
    /// The key pair's name.
    pub key_name: Option<String>,
    /// The moment of its acceptance.
    pub created_at: Option<DateTime<Utc>>,
    /// The moment of the guest's first start or last move.
    pub launched_at: Option<DateTime<Utc>>,
    /// The moment of the guest's removal.
    pub terminated_at: Option<DateTime<Utc>>,
    /// The moment of the record's deletion.
    pub deleted_at: Option<DateTime<Utc>>,
    /// The moment of the record's last change.
    pub updated_at: Option<DateTime<Utc>>,
    /// The VM state.
    pub state: VmState,
    /// The task state.
    pub task_state: Option<TaskState>,
    /// The guest's power state.
    pub power_state: PowerState,
    /// The progress, from 0 to 100.
    pub progress: i32,
    /// True if the owner or an administrator locked it.
    pub locked: bool,
    /// The reason of the lock.
    pub locked_reason: Option<String>,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Addresses.
    pub ip_addresses: Vec<IpAddress>,
    /// Volumes.
    pub block_devices: Vec<BlockDevice>,
    /// True if `OS-DCF:diskConfig` is AUTO.
    pub auto_disk_config: bool,
    /// The id of the causing request.
    pub request_id: Option<String>,
    /// The user who caused it.
    pub action_initiator_user: Option<String>,
    /// The project of the causing request.
    pub action_initiator_project: Option<String>,
    /// Only in error notifications.
    pub fault: Option<ExceptionPayload>,
    /// The requested flavor, only in `resize_prep` notifications.
    pub new_flavor: Option<Flavor>,
}

impl InstanceFields {
    /// Returns the object's data, for [`Event::payload`](super::Event::payload).
    pub fn data(&self) -> Value {
        let mut data = json!({
            "uuid": self.uuid,
            "user_id": self.user_id,
            "tenant_id": self.tenant_id,
            "display_name": self.display_name,
            "display_description": self.display_description,
            "host_name": self.host_name,
            "host": self.host,
            "node": self.node,
            "availability_zone": self.availability_zone,
            "flavor": flavor(&self.flavor),
            "image_uuid": self.image_uuid.map(|id| id.to_string()).unwrap_or_default(),
            "key_name": self.key_name,
            "created_at": time(self.created_at),
            "launched_at": time(self.launched_at),
            "terminated_at": time(self.terminated_at),
            "deleted_at": time(self.deleted_at),
            "updated_at": time(self.updated_at),
            "state": self.state,
            "task_state": self.task_state,
            "power_state": power_state(self.power_state),
            "progress": self.progress,
            "locked": self.locked,
            "locked_reason": self.locked_reason,
            "metadata": self.metadata,
            "ip_addresses": self.ip_addresses.iter().map(ip_address).collect::<Vec<_>>(),
            "block_devices": self.block_devices.iter().map(block_device).collect::<Vec<_>>(),
            "auto_disk_config": if self.auto_disk_config { "AUTO" } else { "MANUAL" },
            "request_id": self.request_id,
            "action_initiator_user": self.action_initiator_user,
            "action_initiator_project": self.action_initiator_project,
            "fault": self.fault.as_ref().map(fault),
        });
        if let (Some(new_flavor), Value::Object(fields)) = (&self.new_flavor, &mut data) {
            fields.insert("new_flavor".to_owned(), flavor(new_flavor));
        }
        data
    }
}

fn object(name: &str, version: &str, data: Value) -> Value {
    json!({"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": data})
}

fn time(at: Option<DateTime<Utc>>) -> Option<String> {
    at.map(moment::seconds)
}

fn power_state(state: PowerState) -> &'static str {
    match state {
        PowerState::NoState => "pending",
        PowerState::Running => "running",
        PowerState::Paused => "paused",
        PowerState::Shutdown => "shutdown",
        PowerState::Suspended => "suspended",
    }
}

fn flavor(flavor: &Flavor) -> Value {
    let data = json!({
        "flavorid": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "extra_specs": flavor.extra_specs,
        "is_public": flavor.is_public,
        "disabled": flavor.disabled,
        "description": flavor.description,
    });
    object("FlavorPayload", "1.4", data)
}

fn ip_address(ip: &IpAddress) -> Value {
    let data = json!({
        "label": ip.label,
        "mac": ip.mac,
        "address": ip.address,
        "version": ip.version,
        "port_uuid": ip.port_id,
        "device_name": ip.device_name,
    });
    object("IpPayload", "1.0", data)
}

fn block_device(device: &BlockDevice) -> Value {
    let data = json!({
        "volume_id": device.volume_id,
        "device_name": device.device_name,
        "tag": device.tag,
        "boot_index": device.boot_index,
        "delete_on_termination": device.delete_on_termination,
    });
    object("BlockDevicePayload", "1.0", data)
}

fn fault(fault: &ExceptionPayload) -> Value {
    let data = json!({"exception": fault.exception, "exception_message": fault.exception_message});
    object("ExceptionPayload", "1.1", data)
}
