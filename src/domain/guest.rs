//! What a host needs to know to build a guest. Plain serde values: they travel to hosts.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Flavor;
use super::secret::Sealed;

/// A guest as a host shall build it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestSpec {
    /// The server.
    pub server: Uuid,
    /// Its name in the hypervisor (`instance-0000002a`).
    pub instance_name: String,
    /// Sizes.
    pub flavor: Flavor,
    /// Where the disks' content comes from.
    pub disks: DiskSource,
    /// Volumes to connect, in boot order.
    pub volumes: Vec<GuestVolume>,
    /// Virtual interfaces to plug.
    pub vifs: Vec<GuestVif>,
    /// The configuration that the guest reads at its first boot; null after a move.
    pub config_drive: serde_json::Value,
    /// The guest's secrets (`personality`, user data, password).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// Where a new guest's disks come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DiskSource {
    /// A fresh root disk from an image, with fresh ephemeral and swap disks.
    Image {
        /// The image.
        image_id: Uuid,
    },
    /// All local disks as a move's snapshot carries them, verified against the manifest (NOVA-DIFFERENCES L18: ephemeral and swap too).
    Snapshot {
        /// The temporary image; none when a volume-backed server has no local disk worth carrying.
        image_id: Option<Uuid>,
        /// What the source uploaded.
        manifest: DiskManifest,
    },
    /// Disks that another host of the same cell left in the cell's transfer area.
    Transfer {
        /// The migration that they travel for.
        migration: Uuid,
        /// What the source wrote.
        manifest: DiskManifest,
    },
    /// The disks are on the host already (kept through a move, or the guest is defined anew).
    Kept,
    /// The root disk is a volume; local disks, if any, are fresh.
    Volume,
}

/// The local disks of a guest, in the order of their bytes in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DiskManifest {
    /// One entry per disk.
    pub disks: Vec<DiskPart>,
}

/// One disk in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskPart {
    /// `disk` (root), `disk.eph0` or `disk.swap`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, in hex.
    pub sha256: String,
}

/// A volume of a guest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestVolume {
    /// The volume.
    pub volume_id: Uuid,
    /// The attachment under which this host connects it.
    pub attachment_id: Uuid,
    /// Device name inside the guest, e.g. `/dev/vdb`.
    pub device_name: String,
    /// 0 for the root disk of a volume-backed server.
    pub boot_index: Option<i32>,
    /// What the volume service said about reaching the volume from this host.
    pub connection_info: serde_json::Value,
}

/// A virtual interface of a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestVif {
    /// The port.
    pub port_id: Uuid,
    /// Its MAC address.
    pub mac: String,
}
