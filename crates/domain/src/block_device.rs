//! Block devices: a server's disks and volumes.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A disk or volume of a server. Both cells of a move use the same uuid, but each has its own attachment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BlockDevice {
    pub uuid: Uuid,
    pub instance_uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    /// 0 for the boot disk; none or negative for a disk that never boots.
    pub boot_index: Option<i32>,
    /// For example `/dev/vdb`.
    pub device_name: Option<String>,
    /// `image`, `volume`, `snapshot` or `blank`.
    pub source_type: String,
    /// `local` or `volume`.
    pub destination_type: String,
    pub volume_id: Option<Uuid>,
    pub attachment_id: Option<Uuid>,
    pub connection_info: Option<serde_json::Value>,
    /// In GiB.
    pub volume_size: Option<i32>,
    pub volume_type: Option<String>,
    pub delete_on_termination: bool,
    pub image_id: Option<Uuid>,
    pub snapshot_id: Option<Uuid>,
    pub tag: Option<String>,
    pub no_device: bool,
    pub disk_bus: Option<String>,
    pub device_type: Option<String>,
    pub guest_format: Option<String>,
}

impl BlockDevice {
    /// Makes a device for a volume without an attachment.
    pub fn volume(uuid: Uuid, instance_uuid: Uuid, volume_id: Uuid, now: DateTime<Utc>) -> BlockDevice {
        BlockDevice {
            source_type: "volume".to_owned(),
            destination_type: "volume".to_owned(),
            volume_id: Some(volume_id),
            ..BlockDevice::local(uuid, instance_uuid, now)
        }
    }

    /// Makes a device for a blank local disk.
    pub fn local(uuid: Uuid, instance_uuid: Uuid, now: DateTime<Utc>) -> BlockDevice {
        BlockDevice {
            uuid,
            instance_uuid,
            created_at: now,
            updated_at: None,
            boot_index: None,
            device_name: None,
            source_type: "blank".to_owned(),
            destination_type: "local".to_owned(),
            volume_id: None,
            attachment_id: None,
            connection_info: None,
            volume_size: None,
            volume_type: None,
            delete_on_termination: false,
            image_id: None,
            snapshot_id: None,
            tag: None,
            no_device: false,
            disk_bus: None,
            device_type: None,
            guest_format: None,
        }
    }

    /// True if the device is a volume that exists.
    pub fn is_volume(&self) -> bool {
        self.destination_type == "volume" && self.volume_id.is_some()
    }
}

/// A change of a block device. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockDeviceChange {
    pub boot_index: Option<Option<i32>>,
    pub device_name: Option<Option<String>>,
    pub volume_id: Option<Option<Uuid>>,
    pub attachment_id: Option<Option<Uuid>>,
    pub connection_info: Option<Option<serde_json::Value>>,
    pub volume_size: Option<Option<i32>>,
    pub delete_on_termination: Option<bool>,
    pub tag: Option<Option<String>>,
}
