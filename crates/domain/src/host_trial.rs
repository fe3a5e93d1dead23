//! Trials: the acts of guests, users and machines that tests, experiments and the demo perform on a host. A link carries them like any other
//! query, so they work wherever the host runs; a host obeys them only if its options allow trials.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A trial with a host or with one of its guests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostTrial {
    /// The running guest writes bytes to each of its disks and volumes.
    GuestWrite {
        /// The guest's server.
        server: Uuid,
        bytes: Vec<u8>,
    },
    /// The running guest writes bytes to its memory.
    MemoryWrite {
        /// The guest's server.
        server: Uuid,
        bytes: Vec<u8>,
    },
    /// Reads the memory of a running or paused guest.
    Memory {
        /// The guest's server.
        server: Uuid,
    },
    /// Tells where the files of a guest's local disks are.
    Disks {
        /// The guest's server.
        server: Uuid,
    },
    /// The guest goes, as by the hand of the machine's administrator: only its disks are left.
    LoseGuest {
        /// The guest's server.
        server: Uuid,
    },
    /// The host asks at once for its interrupted guests, as it does every few seconds. Answered when each runs or may not run now.
    ResumeGuests,
    /// The host's program breaks down. No answer comes.
    Crash,
}

/// The outcome of a trial.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TrialOutcome {
    /// The trial is made.
    Done,
    /// Answers `Memory`.
    Memory(Vec<u8>),
    /// Answers `Disks`.
    Disks(Vec<DiskPlace>),
}

/// The place of a guest's local disk on the host's machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskPlace {
    /// `disk`, `disk.eph0` or `disk.swap`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}
