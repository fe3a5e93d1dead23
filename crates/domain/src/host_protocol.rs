//! The messages to and from a compute host: plain serde values, so that a mailbox or a broker can carry them. The messages of a move come
//! in the order of its steps.

mod question;

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fence::Fence;
use super::flavor::Resources;
use super::guest::{DiskManifest, DiskPart, GuestSpec, GuestVif, GuestVolume};
use super::host_network::{FunctionWish, VirtualFunction};
use super::host_trial::{HostTrial, TrialOutcome};
use super::reason::Reason;
use super::secret::{SealKey, Sealed};
use super::server::{PowerState, VmState};
pub use question::{
    Asker, ExportTicket, FORGOTTEN_AT_ONCE, HostQuestion, ImageBytes, ImageTicket, NeighbourError, Plugging, QuestionAnswer, TICKET_HEADER,
};

/// The maximum size of a message to or from a host, in bytes of its JSON.
pub const MESSAGE_MAX: usize = 512 << 10;

/// A command for one server on a host. The host refuses a fence below the highest that it has obeyed for the server, answers a repeated
/// fence with the remembered reply, and cancels or waits for a running command that a higher fence overtakes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostRequest {
    /// The server, and the order of this request among all its requests.
    pub fence: Fence,
    /// The migration or other operation of this request, for logs and progress.
    pub operation: Uuid,
    /// The command.
    pub command: HostCommand,
    /// The id of the user's request that began the operation, for logs; empty if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

impl HostRequest {
    /// Makes a request that no user's request has begun.
    pub fn new(fence: Fence, operation: Uuid, command: HostCommand) -> HostRequest {
        HostRequest { fence, operation, command, request_id: String::new() }
    }
}

/// The commands to a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostCommand {
    /// Takes room for a guest. `holder` is the server, or the migration for a flavor that a move keeps reserved.
    Claim {
        /// The claim's key. A second claim with this key replaces the first.
        holder: Uuid,
        /// The amounts.
        resources: Resources,
        /// The virtual functions for the server's ports.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        functions: Vec<FunctionWish>,
    },
    /// Returns the room. Succeeds if there is no such claim.
    DropClaim {
        /// The claim's key.
        holder: Uuid,
    },
    /// Asks the guest to stop, then powers it off. Succeeds if it is off or absent.
    StopGuest {
        /// The grace time for the guest's own shutdown, in milliseconds.
        grace_ms: u64,
    },
    /// Uploads the guest's local disks as one image, in the order of the manifest in the reply.
    UploadSnapshot {
        /// An existing, queued image.
        image_id: Uuid,
    },
    /// Uploads the guest's root disk alone, as an image to boot from. When it is answered, the bytes survive a power cut.
    UploadRootDisk {
        /// An existing, queued image.
        image_id: Uuid,
    },
    /// Uploads the guest's root disk as [`HostCommand::UploadRootDisk`] does. A running guest stands still meanwhile.
    SnapshotGuest {
        /// An existing, queued image.
        image_id: Uuid,
    },
    /// Puts the guest's local disks into the cell's transfer area for another host of this cell.
    ExportDisks,
    /// Removes the files that `ExportDisks` or a snapshot download left. Succeeds if there are none.
    DropExport,
    /// Removes the guest but keeps its disks; disconnects its volumes and unplugs its VIFs.
    ReleaseGuest,
    /// Defines the guest (fetches and verifies disks, connects volumes, plugs VIFs) without starting it. Replaces an earlier half-done
    /// definition. Refuses disks with a wrong checksum.
    PrepareGuest {
        /// The guest.
        spec: Box<GuestSpec>,
    },
    /// Starts a defined guest and waits until its VIFs are plugged. Succeeds if it runs.
    StartGuest,
    /// Stops and removes the guest and its disks. Succeeds if there are none.
    RemoveGuest,
    /// Stops and starts the guest without a change of its definition.
    RebootGuest {
        /// The grace time for the guest's own shutdown, in milliseconds.
        grace_ms: u64,
    },
    /// Lets the running guest stand still with its memory. Succeeds if it stands still.
    PauseGuest,
    /// Writes the memory of the running or paused guest to the host's disk, and powers it off. Succeeds if that is so.
    SuspendGuest,
    /// Lets a paused or suspended guest run on with its memory, and boots a guest that is off. Succeeds if it runs.
    ResumeGuest,
    /// Makes a further disk from an image for the guest that is off: the guest boots from it. Replaces the disk of an earlier rescue.
    RescueGuest {
        /// The image.
        image_id: Uuid,
        /// The configuration that the guest reads from that disk.
        config_drive: serde_json::Value,
        /// The guest's password, sealed for the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
    },
    /// Powers a rescued guest off and removes the disk of its rescue. Changes nothing if there is none.
    UnrescueGuest,
    /// Sends the running guest a non-maskable interrupt, on which its kernel dumps its memory.
    InjectNmi,
    /// Tells the running guest its new password.
    SetPassword {
        /// The password, sealed for the host.
        sealed: Sealed,
    },
    /// Connects a volume to the guest, which may run.
    AttachVolume {
        /// The volume.
        volume: GuestVolume,
    },
    /// Disconnects a volume. Succeeds if it is not connected.
    DetachVolume {
        /// The volume.
        volume_id: Uuid,
    },
    /// Gives the guest, which may run, an interface, and waits until the network has plugged it. Replaces an interface of the same port.
    AttachVif {
        /// The interface.
        vif: GuestVif,
    },
    /// Takes an interface out of the guest, unplugs it, and frees its virtual function. Succeeds if the guest has none of this port.
    DetachVif {
        /// The port.
        port_id: Uuid,
    },
    /// Live migration: refused if the guest could not come to this host. Changes nothing.
    CheckLiveTarget,
    /// Live migration: waits until the source host may send one more guest away. The operation has its turn until the copy ends.
    AwaitLiveTurn,
    /// Live migration: gives the turn back, or stops waiting. Succeeds if there is none.
    LeaveLiveQueue,
    /// Live migration: copies the disks and the memory of the running guest into the transfer area, again and again what it has changed
    /// meanwhile. At the end pauses the guest and writes the rest.
    CopyGuest,
    /// Live migration: lets the guest run on at the source, also after it was lost with its host, and removes what `CopyGuest` wrote.
    EndLiveCopy {
        /// True if its user paused it: then it does not run on.
        #[serde(default)]
        paused: bool,
    },
    /// Live migration: takes the guest's final disks and memory from the transfer area and lets it run on. Succeeds if it was started
    /// for this epoch, whatever it has written since.
    ReceiveGuest {
        /// The guest.
        spec: Box<GuestSpec>,
        /// Its memory.
        memory: DiskPart,
        /// True if its user paused it: then it does not run on.
        #[serde(default)]
        paused: bool,
    },
    /// Only raises the fence, so that lower fences are refused. Answers whether the guest runs (for the hand-back of INVARIANTS S4).
    Fence,
}

/// A host's reply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostReply {
    /// Done, or nothing was to do.
    Done,
    /// `Claim` with wishes for virtual functions: done.
    Claimed {
        /// The function of each port.
        functions: BTreeMap<Uuid, VirtualFunction>,
    },
    /// `StopGuest`, `Fence`: done, and whether the guest ran before.
    Stopped {
        /// True if the guest ran.
        was_running: bool,
    },
    /// `UploadSnapshot`, `ExportDisks`: done.
    Exported {
        /// The manifest of the written bytes.
        manifest: DiskManifest,
    },
    /// `CopyGuest`: done, and the guest is paused.
    Copied {
        /// The manifest of the disks.
        manifest: DiskManifest,
        /// The memory.
        memory: DiskPart,
    },
    /// Certainly not done, without leftovers.
    Refused {
        /// A sentence for the instance action.
        reason: Reason,
    },
    /// A higher fence has been obeyed, so this late request did nothing.
    Stale {
        /// The highest obeyed epoch.
        epoch: i64,
        /// The highest obeyed attempt of this epoch.
        attempt: i64,
    },
    /// Begun and failed; leftovers are possible.
    Failed {
        /// A sentence for the instance action.
        reason: Reason,
    },
}

impl fmt::Display for HostReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostReply::Done => f.write_str("done"),
            HostReply::Claimed { functions } => write!(f, "claimed, with {} virtual functions", functions.len()),
            HostReply::Stopped { was_running: true } => f.write_str("stopped, the guest ran"),
            HostReply::Stopped { was_running: false } => f.write_str("stopped, the guest did not run"),
            HostReply::Exported { manifest } => write!(f, "exported {} disks", manifest.disks.len()),
            HostReply::Copied { manifest, .. } => write!(f, "copied {} disks and the memory, the guest is paused", manifest.disks.len()),
            HostReply::Refused { reason } => write!(f, "refused: {reason}"),
            HostReply::Stale { epoch, attempt } => write!(f, "too late: fence ({epoch}, {attempt}) has been obeyed"),
            HostReply::Failed { reason } => write!(f, "failed: {reason}"),
        }
    }
}

/// A question to a host, which changes nothing, or a small act without a fence. The id of an ask lets the host recognise an act that is
/// delivered twice; a nil id is that of an earlier release, whose acts are not recognised.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostQuery {
    /// Asks for sizes, claims and guests with their files: the first page.
    Report,
    /// Asks for a further page of the report.
    ReportPage {
        /// The last server of the page before; none for the first page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Uuid>,
        /// The maximum number of servers. A host gives fewer if the page would become too large; without a limit it chooses the number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
    /// Asks for a server's guest with its files.
    Guest {
        /// The guest's server.
        server: Uuid,
    },
    /// Asks for what can be told without a look at files.
    Summary,
    /// Asks whether a guest's disks have their recorded contents. Reads all their bytes.
    Contents {
        /// The guest's server.
        server: Uuid,
    },
    /// Asks how many bytes the operation has moved. Long copies are judged by it.
    Progress {
        /// The operation.
        operation: Uuid,
    },
    /// Asks how far the copy of a running guest is.
    LiveProgress {
        /// The live migration.
        operation: Uuid,
    },
    /// Asks which virtual functions no port has.
    FreeFunctions,
    /// Asks for the newest lines that a guest has written, also of a guest that is off.
    Console {
        /// The guest's server.
        server: Uuid,
    },
    /// Types a line into a running guest's console, as its user does.
    TypeLine {
        /// The guest's server.
        server: Uuid,
        line: String,
        /// The id of the ask.
        #[serde(default, skip_serializing_if = "Uuid::is_nil")]
        ask: Uuid,
    },
    /// Asks the source to pause the guest now, however much of it is still to be copied.
    ForceComplete {
        /// The live migration.
        operation: Uuid,
        /// The id of the ask.
        #[serde(default, skip_serializing_if = "Uuid::is_nil")]
        ask: Uuid,
    },
    /// Asks for the right of another host of the cell to read what this host has exported of a server.
    ExportTicket {
        /// The server.
        server: Uuid,
        /// The name of the host that is to read it.
        reader: String,
    },
    /// Makes a trial with the host or with a guest. A host that allows no trials does not know the message.
    Trial(HostTrial),
}

impl HostQuery {
    /// True if the query changes something.
    pub fn acts(&self) -> bool {
        matches!(self, HostQuery::TypeLine { .. } | HostQuery::ForceComplete { .. } | HostQuery::Trial(_))
    }
}

/// A host's answer to a query.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostAnswer {
    /// Answers `Report` and `ReportPage`.
    Report(HostReport),
    /// Answers `Guest`, also with disks that a released guest left; none if the host has nothing of the server.
    Guest(Option<Box<GuestReport>>),
    /// Answers `Summary`.
    Summary(HostSummary),
    /// Answers `Contents`, for the disks with known contents.
    Contents(Vec<DiskCheck>),
    /// Answers `Progress`: bytes moved, and all bytes (0 while unknown).
    Progress {
        /// The bytes moved.
        done: u64,
        /// All bytes.
        total: u64,
    },
    /// Answers `LiveProgress`; none if the host copies no guest for this operation.
    LiveProgress(Option<LiveProgress>),
    /// Answers `FreeFunctions`.
    FreeFunctions(Vec<VirtualFunction>),
    /// Answers `Console`.
    Console(String),
    /// Answers `TypeLine`.
    Typed,
    /// Answers `ForceComplete`: true if the host copies a guest for this operation.
    Hastened(bool),
    /// Answers `ExportTicket`; none if the export lies in a directory that the hosts of the cell share.
    ExportTicket(Option<ExportTicket>),
    /// Answers `Trial`: its outcome, or the reason why it could not be made.
    Trial(Result<TrialOutcome, Reason>),
}

/// The progress of a copy of a running guest, in bytes. What the guest changes meanwhile is copied again, so more may be processed than
/// there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LiveProgress {
    pub memory_total: u64,
    pub memory_processed: u64,
    pub memory_remaining: u64,
    pub disk_total: u64,
    pub disk_processed: u64,
    pub disk_remaining: u64,
}

impl LiveProgress {
    /// Returns the copied part in percent.
    pub fn percent(&self) -> i32 {
        let total = self.memory_total + self.disk_total;
        let left = (self.memory_remaining + self.disk_remaining).min(total);
        let done = (total - left) * 100 / total.max(1);
        i32::try_from(done).unwrap_or(100)
    }
}

/// A host's report about itself, or a page of it: what the host has of the servers between two ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostReport {
    /// The host's name.
    pub host: String,
    /// Its total resources.
    pub capacity: Resources,
    /// The claims by holder.
    pub claims: Vec<(Uuid, HostClaim)>,
    /// Its guests.
    pub guests: Vec<GuestReport>,
    /// The moment at which the machine got its power, if the host knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_since: Option<DateTime<Utc>>,
    /// The last server of this page, if there are more; the next page begins after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Uuid>,
}

/// The use of a host, in short.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostSummary {
    /// The sum of the claims.
    pub claimed: Resources,
    /// The number of defined guests.
    pub guests: usize,
    /// The servers whose guests are defined and off.
    pub off: Vec<Uuid>,
    /// The servers whose guests are paused, suspended or rescued, with the state that such a server has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<(Uuid, VmState)>,
    /// The moment at which the machine got its power, if the host knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_since: Option<DateTime<Utc>>,
    /// The key for which secrets of the host's guests are to be sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_key: Option<SealKey>,
}

impl HostSummary {
    /// Returns what these guests are, without a host's claims.
    pub fn of_guests(guests: &[GuestReport]) -> HostSummary {
        let defined = || guests.iter().filter(|guest| guest.defined);
        let off = defined().filter(|guest| guest.power_state == PowerState::Shutdown);
        let apart = defined().filter_map(|guest| match guest.vm_state()? {
            state @ (VmState::Paused | VmState::Suspended | VmState::Rescued) => Some((guest.server, state)),
            _ => None,
        });
        HostSummary {
            guests: defined().count(),
            off: off.map(|guest| guest.server).collect(),
            apart: apart.collect(),
            ..HostSummary::default()
        }
    }
}

/// A claim of a host: room, and virtual functions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostClaim {
    #[serde(flatten)]
    pub room: Resources,
    /// The virtual function of each port that has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<Uuid, VirtualFunction>,
}

/// A host's report about a guest, or about disks that a released guest left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GuestReport {
    /// The server.
    pub server: Uuid,
    /// True if a guest is defined; false if only kept disks are left.
    pub defined: bool,
    /// The guest's power state.
    pub power_state: PowerState,
    /// True if it boots from the disk of a rescue.
    #[serde(default)]
    pub rescued: bool,
    /// The epoch of the last start; 0 before the first.
    pub started_epoch: i64,
    /// The highest fence obeyed for the server.
    pub fence: (i64, i64),
    /// The connected volumes.
    pub volumes: Vec<Uuid>,
    /// The plugged ports.
    pub ports: Vec<Uuid>,
    /// The files of its definition, disks and volumes.
    pub disks: Vec<DiskReport>,
    /// The remaining files of an export or a snapshot.
    pub leftovers: Vec<String>,
}

impl GuestReport {
    /// Returns the state of a server at rest with this guest; none if no guest is defined, or its host does not know whether it runs.
    pub fn vm_state(&self) -> Option<VmState> {
        match self.power_state {
            _ if !self.defined => None,
            PowerState::NoState => None,
            _ if self.rescued => Some(VmState::Rescued),
            PowerState::Running => Some(VmState::Active),
            PowerState::Paused => Some(VmState::Paused),
            PowerState::Suspended => Some(VmState::Suspended),
            PowerState::Shutdown => Some(VmState::Stopped),
        }
    }
}

/// A guest's file, and its expected contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// `disk`, `disk.eph0` or `disk.swap`, a volume's id, or the file of the guest's definition.
    pub name: String,
    /// The file's length; none if it is missing. The host protocol calls it `found`.
    #[serde(rename = "found")]
    pub length: Option<u64>,
    /// The beginning of the known contents: 0, except in a volume.
    pub from: u64,
    /// The end of the known contents and of the file; none if nothing is known.
    pub expected: Option<u64>,
    /// True if a longer file is allowed.
    pub at_least: bool,
}

impl DiskReport {
    /// False for the file of a definition.
    pub fn is_disk(&self) -> bool {
        !self.name.ends_with(".json")
    }
}

/// A disk whose bytes were read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskCheck {
    /// The name as in [`DiskReport`].
    pub name: String,
    /// The number of bytes read.
    pub bytes: u64,
    pub verdict: DiskVerdict,
}

/// The result of reading a disk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DiskVerdict {
    /// The bytes match.
    Same,
    /// The bytes differ.
    Differs {
        /// The recorded SHA-256 in hex.
        expected: String,
        /// The SHA-256 of the file in hex. The host protocol calls it `found`.
        #[serde(rename = "found")]
        sha256: String,
    },
    /// The host cannot read the disk.
    Unreadable {
        /// The reason.
        reason: String,
    },
    /// The guest was removed or defined again meanwhile.
    Changing,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000-0000-0000-0000-000000000001";

    #[test]
    fn acts_of_an_earlier_release_have_no_id() {
        let typed = format!(r#"{{"TypeLine":{{"server":"{ID}","line":"ls"}}}}"#);
        let forced = format!(r#"{{"ForceComplete":{{"operation":"{ID}"}}}}"#);
        let queries = [
            (typed, HostQuery::TypeLine { server: Uuid::from_u128(1), line: "ls".into(), ask: Uuid::nil() }),
            (forced, HostQuery::ForceComplete { operation: Uuid::from_u128(1), ask: Uuid::nil() }),
        ];
        for (released, query) in queries {
            assert_eq!(serde_json::from_str::<HostQuery>(&released).unwrap(), query);
            assert_eq!(serde_json::to_string(&query).unwrap(), released, "what has no id is written as before");
            assert!(query.acts());
        }
    }

    #[test]
    fn an_act_has_the_id_of_its_ask() {
        let query = HostQuery::ForceComplete { operation: Uuid::from_u128(1), ask: Uuid::from_u128(2) };
        let text = serde_json::to_string(&query).unwrap();
        assert_eq!(text, format!(r#"{{"ForceComplete":{{"operation":"{ID}","ask":"00000000-0000-0000-0000-000000000002"}}}}"#));
        assert_eq!(serde_json::from_str::<HostQuery>(&text).unwrap(), query);
        assert!(!HostQuery::Report.acts());
    }
}
