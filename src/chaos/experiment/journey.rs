//! The servers of an experiment whose users know what they want: each is made and then led through the same acts, one after the other.

use serde::{Deserialize, Serialize};

/// Some servers, and what is asked of each (`[[workload.journeys]]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Journey {
    /// How many.
    pub servers: u32,
    /// What each is made with; it decides the cell (`gen1.*` is cell1's hardware).
    pub flavor: String,
    /// Volumes attached to each before its first act.
    pub volumes: u32,
    /// When the first is asked for, in milliseconds after the beginning.
    pub start_ms: u64,
    /// The time from one server to the next.
    pub spacing_ms: u64,
    /// What is asked, each when the server is at rest after the one before.
    pub acts: Vec<Deed>,
}

impl Default for Journey {
    fn default() -> Journey {
        Journey { servers: 1, flavor: "gen1.small".into(), volumes: 0, start_ms: 0, spacing_ms: 250, acts: Vec::new() }
    }
}

/// One thing that a user does with a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Resize to this flavor.
    Resize(String),
    /// Migrate to wherever the scheduler says.
    Migrate,
    /// Migrate to this host.
    MigrateTo(String),
    Confirm,
    Revert,
    Stop,
    Start,
    SoftReboot,
    HardReboot,
    Rebuild,
    /// The guest writes to its disks.
    Write,
    Delete,
    /// Nothing for so many milliseconds.
    Wait(u64),
}
