//! The interface between a host and its hypervisor driver. Calls block, so they belong on the blocking pool. A call that returns `Ok` has
//! taken effect durably; any other call may be repeated.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use cellshift_domain::guest::{GuestSpec, GuestVif, GuestVolume};
use cellshift_domain::reason::Reason;
use cellshift_domain::server::PowerState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::written::Written;

/// The reason why a driver did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum VirtError {
    /// The host has no guest of the server.
    #[error("server {0} has no guest on this host")]
    NoGuest(Uuid),
    /// The guest's state or its surroundings do not allow it. Nothing was changed.
    #[error("{0}")]
    Refused(Reason),
    /// The host's disk or the hypervisor failed. The work may be half done.
    #[error("{what}: {}", Reason::of_system(.source))]
    Io {
        /// The attempted work and its object.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl VirtError {
    /// Makes an error for `map_err` on file operations.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> VirtError {
        let what = what.into();
        move |source| VirtError::Io { what, source }
    }
}

/// The reason why a defined guest that ran is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StopCause {
    /// A command of this operation stopped it. If the operation asks again, it still learns that the guest ran.
    Operation(Uuid),
    /// The host or its agent went away. The guest starts again once the host learns that it may run it.
    HostDown,
    /// Its user paused it, and it stays paused through a restart of its host.
    UserPaused,
}

/// A guest, or the disks that a released guest left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestRecord {
    /// The specification with which it was defined, without the config drive and the secrets. Its volumes and interfaces are the present
    /// ones.
    pub spec: GuestSpec,
    /// False if only the disks are left.
    pub defined: bool,
    /// Whether it runs.
    pub power_state: PowerState,
    /// The epoch of the last start; 0 before the first.
    pub started_epoch: i64,
    /// Set while a guest that ran is off.
    pub stopped_by: Option<StopCause>,
    /// The bytes written to each local disk (by name) and each volume (by id, from where the guest began to write), as of the moment when
    /// the guest was last off. A running guest adds to them. A missing disk was made by an older release.
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
    /// The path of its file.
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
}

/// A guest's disk or volume: its file, and its expected contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The name of a local disk, a volume's id, or the file name of the guest's definition.
    pub name: String,
    /// The path of its file.
    pub path: PathBuf,
    /// The file's length; none if the file is missing.
    pub length: Option<u64>,
    /// The written bytes, if known. None for a definition and for a disk of an older release.
    pub written: Option<Written>,
    /// Allows a longer file: the guest may have written while the service was killed, or another guest may have written to the volume.
    pub at_least: bool,
    /// Changes each time the guest is defined.
    pub life: u64,
}

/// The disk from which a rescued guest boots. It is never part of a manifest.
pub const RESCUE: &str = "disk.rescue";
/// The names of local disks in the order of a manifest.
pub const DISK_NAMES: [&str; 3] = [ROOT, EPHEMERAL, SWAP];
/// The root disk.
pub const ROOT: &str = "disk";
/// The ephemeral disk.
pub const EPHEMERAL: &str = "disk.eph0";
/// The swap disk.
pub const SWAP: &str = "disk.swap";

/// The operations that take time on a real hypervisor. Latencies and faults are configured per operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Defining a guest from its disks.
    Define,
    /// Powering on.
    Start,
    /// The guest's own shutdown. If it takes longer than the grace time, the guest did not react.
    GuestShutdown,
    /// Cutting the power.
    PowerOff,
    /// Letting a guest stand still.
    Pause,
    /// Writing a guest's memory to the disk.
    Suspend,
    /// Removing the guest, with or without its disks.
    Undefine,
    /// Connecting or disconnecting a volume.
    Volume,
    /// Plugging or unplugging an interface.
    Vif,
    /// Reading or writing local disks for a snapshot, an export or an import; once per set of disks.
    CopyDisks,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Define => "building a guest",
            Operation::Start => "starting a guest",
            Operation::GuestShutdown => "shutting a guest down",
            Operation::PowerOff => "cutting a guest's power",
            Operation::Pause => "pausing a guest",
            Operation::Suspend => "suspending a guest",
            Operation::Undefine => "removing a guest",
            Operation::Volume => "connecting or disconnecting a volume",
            Operation::Vif => "plugging or unplugging an interface",
            Operation::CopyDisks => "copying disks",
        })
    }
}

/// A hypervisor driver. Each host has one, which all lives of its actor share.
pub trait Hypervisor: Send + Sync {
    /// Returns all guests of this host, and the disks that released guests left.
    fn guests(&self) -> Result<Vec<GuestRecord>, VirtError>;

    /// True if this host has a guest or the disks of a released one. Answered from memory.
    fn has_guests(&self) -> bool;

    /// Returns the server's guest or left disks.
    fn guest(&self, server: Uuid) -> Result<Option<GuestRecord>, VirtError>;

    /// Returns the server's local disks, in the order of [`DISK_NAMES`]. Their contents are stable only while the guest is off.
    fn disks(&self, server: Uuid) -> Result<Vec<DiskFile>, VirtError>;

    /// Returns the files of the guest's definition, disks and volumes with their expected contents, consistent between two of its writes.
    /// Empty if there is no guest.
    fn contents(&self, server: Uuid) -> Result<Vec<Content>, VirtError>;

    /// Makes an empty directory for incoming disks, and removes the files of an earlier attempt.
    fn clear_incoming(&self, server: Uuid) -> Result<PathBuf, VirtError>;

    /// Removes the directory for incoming disks. Succeeds if there is none.
    fn discard_incoming(&self, server: Uuid) -> Result<(), VirtError>;

    /// Returns the files that interrupted imports left, per server.
    fn leftovers(&self) -> Result<Vec<(Uuid, String)>, VirtError>;

    /// Defines the guest without starting it: takes the incoming disks (or keeps the present ones, for
    /// [`cellshift_domain::guest::DiskSource::Kept`]), makes the flavor's missing ephemeral and swap disks, and connects the volumes. Replaces
    /// a definition that does not run; a guest on kept disks that ran when its host went away still counts as interrupted. `arrived` are the bytes of the incoming disks, by name.
    fn define(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError>;

    /// Powers the guest on and remembers the epoch. For a running guest only remembers the epoch.
    fn start(&self, server: Uuid, epoch: i64) -> Result<(), VirtError>;

    /// Powers the guest off, with `orderly` after its own shutdown. The memory of a paused or suspended guest is lost. Returns whether it
    /// ran before: it runs now, the same operation stopped it, or the loss of its host interrupted it. Succeeds if it is off or absent.
    fn stop(&self, server: Uuid, cause: StopCause, orderly: bool) -> Result<bool, VirtError>;

    /// Lets the running guest stand still with its memory; its disks are then at rest. Succeeds if it stands still. A guest that its user
    /// paused stays so, whatever the cause.
    fn pause(&self, server: Uuid, cause: StopCause) -> Result<(), VirtError>;

    /// Writes the memory of the running or paused guest durably, and powers it off. Succeeds if it is suspended.
    fn suspend(&self, server: Uuid) -> Result<(), VirtError>;

    /// Lets a paused or suspended guest run on with its own memory, or a defined guest with the memory that arrived. It does not boot.
    /// Remembers the epoch. For a running guest only remembers the epoch.
    fn resume(&self, server: Uuid, epoch: i64, arrived: Option<Vec<u8>>) -> Result<(), VirtError>;

    /// Takes the memory that arrived for a defined guest that its user paused, which does not run. Remembers the epoch.
    fn arrive_paused(&self, server: Uuid, epoch: i64, memory: Vec<u8>) -> Result<(), VirtError>;

    /// Returns those bytes of the memory of a running or paused guest that the driver keeps.
    fn memory(&self, server: Uuid) -> Result<Vec<u8>, VirtError>;

    /// Lets the running guest write these bytes to its memory.
    fn memory_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError>;

    /// Removes the guest and keeps its disks. Succeeds if there is none. Refused while it runs.
    fn undefine(&self, server: Uuid) -> Result<(), VirtError>;

    /// Removes the guest, its disks and all other files of the server. Refused while it runs.
    fn remove(&self, server: Uuid) -> Result<(), VirtError>;

    /// Makes the incoming root disk, with this configuration, the disk from which the guest that is off boots. Its own disks stay. Replaces
    /// the disk of an earlier rescue.
    fn rescue(&self, spec: &GuestSpec, arrived: &BTreeMap<String, Written>) -> Result<(), VirtError>;

    /// True if the guest has the disk of a rescue.
    fn is_rescued(&self, server: Uuid) -> Result<bool, VirtError>;

    /// Removes the disk of a rescue: the guest boots from its own. Succeeds if there is none. Refused while the rescued guest runs.
    fn unrescue(&self, server: Uuid) -> Result<(), VirtError>;

    /// Sends the running guest a non-maskable interrupt.
    fn inject_nmi(&self, server: Uuid) -> Result<(), VirtError>;

    /// Tells the running guest's agent the hash of its new password.
    fn set_password(&self, server: Uuid, hash: &str) -> Result<(), VirtError>;

    /// Connects a volume. For a connected volume replaces the connection.
    fn connect_volume(&self, server: Uuid, volume: &GuestVolume) -> Result<(), VirtError>;

    /// Disconnects a volume. Succeeds if it is not connected.
    fn disconnect_volume(&self, server: Uuid, volume: Uuid) -> Result<(), VirtError>;

    /// Adds an interface. Replaces an interface of the same port.
    fn add_vif(&self, server: Uuid, vif: &GuestVif) -> Result<(), VirtError>;

    /// Removes the interface of a port. Succeeds if there is none.
    fn remove_vif(&self, server: Uuid, port: Uuid) -> Result<(), VirtError>;

    /// Handles the loss or the return of the host or its agent: no guest runs now. With `resume`, guests that ran get
    /// [`StopCause::HostDown`] and those that their users paused stay so; otherwise they are just off.
    fn interrupted(&self, resume: bool) -> Result<(), VirtError>;

    /// Lets time pass for the running guests.
    fn tick(&self);

    /// Returns the newest lines that the server's guest has written to its console, also while it is off.
    fn console(&self, server: Uuid) -> Result<String, VirtError>;

    /// Types a line into the running guest's console.
    fn type_line(&self, server: Uuid, line: &str) -> Result<(), VirtError>;

    /// Lets the running guest write these bytes to each of its disks and volumes.
    fn guest_write(&self, server: Uuid, bytes: &[u8]) -> Result<(), VirtError>;
}
