//! What a host asks of its hypervisor driver. Calls block and are meant for the blocking pool; each either took effect
//! durably when it returns `Ok`, or can be repeated.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::written::Written;
use crate::domain::guest::{GuestSpec, GuestVif, GuestVolume};
use crate::domain::inside;
use crate::domain::server::PowerState;

/// Why a driver did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum VirtError {
    /// Nothing is defined for the server here.
    #[error("server {0} has no guest on this host")]
    NoGuest(Uuid),
    /// The guest's state or its surroundings do not allow it; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// The host's own disk or the hypervisor failed; something may be half done.
    #[error("{what}: {}", inside::of_system(.source))]
    Io {
        /// What was tried, on what.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl VirtError {
    /// For `map_err` on file operations.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> VirtError {
        let what = what.into();
        move |source| VirtError::Io { what, source }
    }
}

/// Why a defined guest is off although it ran before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StopCause {
    /// A command of this operation stopped it. The same operation asking again still learns that the guest ran.
    Operation(Uuid),
    /// The host or its agent went away under it: it comes back once the host has learned that it may run it.
    HostDown,
}

/// A guest, or the disks that a released guest left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestRecord {
    /// The specification it was built from, without the configuration it read at its first boot. Its volumes and interfaces are those connected now.
    pub spec: GuestSpec,
    /// False when only the disks are left.
    pub defined: bool,
    /// Whether it runs.
    pub power_state: PowerState,
    /// The epoch under which it was started last; 0 before.
    pub started_epoch: i64,
    /// Set while it is off after it ran.
    pub stopped_by: Option<StopCause>,
    /// The bytes written to each local disk (by its name) and to each volume (by its id, from where the guest began to write to it)
    /// when the guest was off last: all there is while it is off, and what it adds to while it runs. A disk that is not in here
    /// was made by an older release.
    #[serde(default)]
    pub contents: BTreeMap<String, Written>,
}

impl GuestRecord {
    /// True while the guest runs.
    pub fn runs(&self) -> bool {
        self.power_state == PowerState::Running
    }
}

/// A local disk of a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFile {
    /// `disk`, `disk.eph0` or `disk.swap`.
    pub name: String,
    /// Where its bytes are.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
}

/// A disk or volume of a guest, as its file is and as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The name of a local disk, a volume's id, or the file of the guest's definition.
    pub name: String,
    /// Where its bytes are.
    pub path: PathBuf,
    /// The file's length; none when there is no file.
    pub found: Option<u64>,
    /// The bytes known to have been written; none for a definition, and for a disk of an older release.
    pub written: Option<Written>,
    /// Others may have written behind that: the guest, while the service was killed, or another guest of a volume.
    pub at_least: bool,
    /// Another one when the guest was defined anew.
    pub life: u64,
}

/// The names of local disks in the order of a manifest.
pub const DISK_NAMES: [&str; 3] = [ROOT, EPHEMERAL, SWAP];
/// The root disk.
pub const ROOT: &str = "disk";
/// The ephemeral disk.
pub const EPHEMERAL: &str = "disk.eph0";
/// The swap disk.
pub const SWAP: &str = "disk.swap";

/// What takes time on a real hypervisor; latencies and faults are configured per operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Building a guest from its disks.
    Define,
    /// Powering on.
    Start,
    /// The guest's own way to power off when asked; longer than the grace time means that it does not react.
    GuestShutdown,
    /// Cutting the power.
    PowerOff,
    /// Removing the guest, with or without its disks.
    Undefine,
    /// Connecting or disconnecting a volume.
    Volume,
    /// Plugging or unplugging an interface.
    Vif,
    /// Reading or writing local disks for a snapshot, an export or an import; once per disk set.
    CopyDisks,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Define => "building a guest",
            Operation::Start => "starting a guest",
            Operation::GuestShutdown => "shutting a guest down",
            Operation::PowerOff => "cutting a guest's power",
            Operation::Undefine => "removing a guest",
            Operation::Volume => "connecting or disconnecting a volume",
            Operation::Vif => "plugging or unplugging an interface",
            Operation::CopyDisks => "copying disks",
        })
    }
}

/// A driver. One per host, shared by the host's incarnations.
pub trait Hypervisor: Send + Sync {
    /// Everything on this host: guests, and disks that released guests left.
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError>;

    /// One of them.
    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError>;

    /// The server's local disks, in the order of [`DISK_NAMES`]. Their content stands still only while the guest is off.
    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError>;

    /// The guest's definition, disks and volumes as they are and as they should be, seen between two of its writes. Empty when there
    /// is no such guest.
    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError>;

    /// An empty directory for disks on their way in; what an earlier attempt left in it is gone.
    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError>;

    /// Removes that directory; fine when there is none.
    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError>;

    /// Files that a broken-off import left, per server.
    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError>;

    /// Builds the guest, off: takes the incoming disks (or keeps those here, for [`crate::domain::guest::DiskSource::Kept`]),
    /// makes fresh ephemeral and swap disks where the flavor asks for them, connects the volumes. Replaces a definition
    /// that does not run. `arrived` is what was written to the incoming disks, by their names.
    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError>;

    /// Powers the guest on and remembers the epoch. On a running guest it only remembers the epoch.
    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError>;

    /// Powers the guest off, after its own orderly shutdown when `orderly`. Gives whether it ran before: running now,
    /// stopped by the same operation, or interrupted by the loss of its host. Fine when it is off or absent.
    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError>;

    /// Removes the guest and keeps its disks. Fine when there is none. Refused while it runs.
    fn undefine(&self, server: Uuid) -> Result<(), VirtError>;

    /// Removes the guest, its disks and whatever else is kept for the server. Refused while it runs.
    fn remove(&self, server: Uuid) -> Result<(), VirtError>;

    /// Connects a volume; the same volume again replaces its connection.
    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError>;

    /// Disconnects a volume; fine when it is not connected.
    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError>;

    /// Gives the guest an interface; the same port again replaces it.
    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError>;

    /// Takes the interface; fine when it has none.
    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError>;

    /// The host or its agent went away or came back: no guest runs now. With `resume`, those that ran are remembered as
    /// [`StopCause::HostDown`]; without, they are simply off.
    fn interrupted(&self, resume: bool) -> Result<(), VirtError>;

    /// Lets time pass for the running guests.
    fn tick(&self);

    /// Bytes that the running guest writes to each of its disks and volumes.
    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError>;

    /// A fault point: the next `times` calls that do this operation fail as a broken hypervisor's would. A driver that has none
    /// goes on working.
    fn fail_next(&self, _operation: Operation, _times: u32) {}

    /// How many of the next calls that do this operation are still to fail.
    fn failing(&self, _operation: Operation) -> u32 {
        0
    }

    /// Nothing is armed any more.
    fn heal(&self) {}
}
