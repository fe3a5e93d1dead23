//! The messages to and from a compute host: plain serde values, so that a mailbox or a broker can carry them
//! . The messages of a move stand in the order of its steps.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fence::Fence;
use super::flavor::Resources;
use super::guest::{DiskManifest, GuestSpec, GuestVif, GuestVolume};
use super::server::PowerState;

/// Something to do to one server on a host. The host refuses a fence below the highest it has obeyed for the server,
/// answers the same fence again with the remembered reply, and cancels or waits for a running command that a higher
/// fence overtakes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostRequest {
    /// The server and the order of this request among all others for it.
    pub fence: Fence,
    /// The migration or other operation that this belongs to; for logs and progress.
    pub operation: Uuid,
    /// What to do.
    pub command: HostCommand,
}

/// What a host can be asked to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostCommand {
    /// Take room for a guest. `holder` is the server, or the migration for a flavor that a move keeps reserved.
    Claim {
        /// The claim's key; claiming twice under one key replaces.
        holder: Uuid,
        /// The amounts.
        resources: Resources,
    },
    /// Give the room back; fine when there is no such claim.
    DropClaim {
        /// The claim's key.
        holder: Uuid,
    },
    /// Rename a claim (a move keeps the old flavor's room under the migration's id); fine when done already.
    MoveClaim {
        /// Present key.
        holder: Uuid,
        /// New key.
        new_holder: Uuid,
    },
    /// Ask the guest to stop, then power it off. Fine when it is off or absent.
    StopGuest {
        /// How long the guest may take by itself, in milliseconds.
        grace_ms: u64,
    },
    /// Upload the guest's local disks as one image, in the order of the manifest in the reply.
    UploadSnapshot {
        /// An existing, queued image.
        image_id: Uuid,
    },
    /// Put the guest's local disks into the cell's transfer area for another host of this cell.
    ExportDisks,
    /// Remove what `ExportDisks` or a snapshot download left behind; fine when there is nothing.
    DropExport,
    /// Destroy the guest but keep its disks; disconnect its volumes and unplug its VIFs.
    ReleaseGuest,
    /// Define the guest (fetch and verify disks, connect volumes, plug VIFs) without starting it. Replaces any earlier
    /// half-done definition. A checksum that does not match is refused.
    PrepareGuest {
        /// The guest.
        spec: Box<GuestSpec>,
    },
    /// Start a defined guest and wait until its VIFs are plugged. Fine when it runs.
    StartGuest,
    /// Stop and remove the guest and its disks. Fine when there is nothing.
    RemoveGuest,
    /// Remove the disks that a released guest left; refused while a guest is defined.
    CleanDisks,
    /// Stop and start the guest without touching its definition.
    RebootGuest {
        /// How long the guest may take by itself, in milliseconds.
        grace_ms: u64,
    },
    /// Connect a volume to the guest, defined or running.
    AttachVolume {
        /// The volume.
        volume: GuestVolume,
    },
    /// Disconnect a volume; fine when it is not connected.
    DetachVolume {
        /// The volume.
        volume_id: Uuid,
    },
    /// Plug an interface.
    AttachVif {
        /// The interface.
        vif: GuestVif,
    },
    /// Unplug an interface; fine when it is not plugged.
    DetachVif {
        /// The port.
        port_id: Uuid,
    },
    /// Only raise the fence: nothing below it may act any more. Answers whether the guest runs (the hand-back of INVARIANTS S4).
    Fence,
}

/// What a host answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostReply {
    /// Done, or nothing was to be done.
    Done,
    /// `StopGuest`, `Fence`: done; whether the guest ran before.
    Stopped {
        /// The guest ran.
        was_running: bool,
    },
    /// `UploadSnapshot`, `ExportDisks`: done.
    Exported {
        /// The bytes that were written.
        manifest: DiskManifest,
    },
    /// Definitely not done, and nothing is left of it.
    Refused {
        /// A sentence for the instance action.
        reason: String,
    },
    /// A higher fence has been obeyed: this request is late and did nothing.
    Stale {
        /// The highest epoch obeyed.
        epoch: i64,
        /// The highest attempt obeyed under it.
        attempt: i64,
    },
    /// Begun and failed; something may be left.
    Failed {
        /// A sentence for the instance action.
        reason: String,
    },
}

impl fmt::Display for HostReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostReply::Done => f.write_str("done"),
            HostReply::Stopped { was_running: true } => f.write_str("stopped, the guest ran"),
            HostReply::Stopped { was_running: false } => f.write_str("stopped, the guest did not run"),
            HostReply::Exported { manifest } => write!(f, "exported {} disks", manifest.disks.len()),
            HostReply::Refused { reason } => write!(f, "refused: {reason}"),
            HostReply::Stale { epoch, attempt } => write!(f, "too late: fence ({epoch}, {attempt}) has been obeyed"),
            HostReply::Failed { reason } => write!(f, "failed: {reason}"),
        }
    }
}

/// Something to ask of a host that changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostQuery {
    /// Sizes, claims and guests.
    Report,
    /// Whether a guest's disks hold what was written to them; reads every byte of them.
    Contents {
        /// Whose guest.
        server: Uuid,
    },
    /// How many bytes the operation has moved so far; long copies are judged by it.
    Progress {
        /// The operation.
        operation: Uuid,
    },
}

/// The answer to a query.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostAnswer {
    /// To `Report`.
    Report(HostReport),
    /// To `Contents`: the disks of which it is known what was written.
    Contents(Vec<DiskCheck>),
    /// To `Progress`: bytes moved and bytes in all (0 while unknown).
    Progress {
        /// Moved.
        done: u64,
        /// In all.
        total: u64,
    },
}

/// What a host says of itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostReport {
    /// The host's name.
    pub host: String,
    /// What it has in all.
    pub capacity: Resources,
    /// Who holds how much of it.
    pub claims: Vec<(Uuid, Resources)>,
    /// Its guests.
    pub guests: Vec<GuestReport>,
}

/// What a host says of one guest or of disks that a released guest left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestReport {
    /// The server.
    pub server: Uuid,
    /// True when a guest is defined; false when only kept disks are left.
    pub defined: bool,
    /// Whether it runs.
    pub power_state: PowerState,
    /// The epoch under which it was started last; 0 before.
    pub started_epoch: i64,
    /// The highest pair obeyed for the server.
    pub fence: (i64, i64),
    /// Volumes connected.
    pub volumes: Vec<Uuid>,
    /// Ports plugged.
    pub ports: Vec<Uuid>,
    /// The files of its definition, disks and volumes.
    pub disks: Vec<DiskReport>,
    /// Files of an export or a snapshot that are still there.
    pub leftovers: Vec<String>,
}

/// A file of a guest as it is and as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// `disk`, `disk.eph0` or `disk.swap`, a volume's id, or the file of the guest's definition.
    pub name: String,
    /// Its length; none when there is no such file.
    pub found: Option<u64>,
    /// Where the part begins of which it is known what was written: 0, except in a volume.
    pub from: u64,
    /// Where that part ends, and so should the file; none when nothing is known.
    pub expected: Option<u64>,
    /// A longer file is as good.
    pub at_least: bool,
}

impl DiskReport {
    /// False for the file of a definition.
    pub fn is_disk(&self) -> bool {
        !self.name.ends_with(".json")
    }
}

/// A disk that was read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskCheck {
    /// As in [`DiskReport`].
    pub name: String,
    /// How many bytes were read.
    pub bytes: u64,
    pub verdict: DiskVerdict,
}

/// The result of reading a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DiskVerdict {
    /// The bytes that were written.
    Same,
    /// Something else: SHA-256 in hex.
    Differs {
        /// Of what was written.
        expected: String,
        /// Of what is there.
        found: String,
    },
    /// The host cannot read it.
    Unreadable {
        /// Why not.
        reason: String,
    },
    /// The guest was defined anew or removed meanwhile.
    Changing,
}
