//! A guest's specification for a host, as plain serde values that travel to hosts.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Flavor;
use super::secret::Sealed;

/// The specification with which a host defines a guest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestSpec {
    /// The server.
    pub server: Uuid,
    /// The name in the hypervisor (`instance-0000002a`).
    pub instance_name: String,
    /// The sizes.
    pub flavor: Flavor,
    /// The source of the disks' contents.
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

/// The source of a new guest's disks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DiskSource {
    /// A fresh root disk from an image, with fresh ephemeral and swap disks.
    Image {
        /// The image.
        image_id: Uuid,
    },
    /// All local disks, from a move's snapshot, verified against the manifest (NOVA-DIFFERENCES L18: ephemeral and swap too).
    Snapshot {
        /// The temporary image; none if a volume-backed server has no local disk to carry.
        image_id: Option<Uuid>,
        /// The manifest of the source's upload.
        manifest: DiskManifest,
    },
    /// The disks that another host of the same cell has exported.
    Transfer {
        /// The migration that carries the disks.
        migration: Uuid,
        /// The name of the host that exported them. An earlier release names none: then both hosts share the cell's transfer area.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The manifest of the source's export.
        manifest: DiskManifest,
    },
    /// The disks arrive later, from a guest that still runs elsewhere: only their places are made.
    Arriving,
    /// The disks are on the host already, kept through a move or a new definition.
    Kept,
    /// The root disk is a volume; local disks, if any, are fresh.
    Volume,
}

/// The local disks of a guest, in the order of their bytes in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DiskManifest {
    /// An entry per disk.
    pub disks: Vec<DiskPart>,
}

/// A disk in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskPart {
    /// `disk` (root), `disk.eph0` or `disk.swap`.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// The SHA-256 of the contents, in hex.
    pub sha256: String,
}

/// A volume of a guest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestVolume {
    /// The volume.
    pub volume_id: Uuid,
    /// The attachment with which this host connects the volume.
    pub attachment_id: Uuid,
    /// The device name inside the guest, for example `/dev/vdb`.
    pub device_name: String,
    /// 0 for the root disk of a volume-backed server.
    pub boot_index: Option<i32>,
    /// The volume service's connection info for this host.
    pub connection_info: serde_json::Value,
}

/// A virtual interface of a guest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestVif {
    /// The port.
    pub port_id: Uuid,
    /// The MAC address.
    pub mac: String,
}
