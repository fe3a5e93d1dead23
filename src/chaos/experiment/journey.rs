//! Journeys: servers of an experiment that are made and then go through the same acts, one after the other.

use serde::{Deserialize, Serialize};

/// Servers with the acts that their users request (`[[workload.journeys]]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Journey {
    /// The number of servers.
    pub servers: u32,
    /// The flavor of each server, which decides its cell (`gen1.*` is cell1's hardware).
    pub flavor: String,
    /// The number of volumes attached to each server before its first act.
    pub volumes: u32,
    /// The egress bandwidth that each server's port is guaranteed, in kilobits per second; 0 for an ordinary port.
    pub egress_kbps: u32,
    /// The time of the first create, in milliseconds after the beginning.
    pub start_ms: u64,
    /// The interval between two creates, in milliseconds.
    pub spacing_ms: u64,
    /// The policy of a server group that the servers of this journey form; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The acts. Each is requested when the server is at rest after the one before.
    pub acts: Vec<UserAction>,
}

impl Default for Journey {
    fn default() -> Journey {
        Journey {
            servers: 1,
            flavor: "gen1.small".into(),
            volumes: 0,
            egress_kbps: 0,
            start_ms: 0,
            spacing_ms: 250,
            group: None,
            acts: Vec::new(),
        }
    }
}

impl UserAction {
    /// True if the act meets an operation at work, so that the server need not be at rest.
    pub fn meets_an_operation(&self) -> bool {
        matches!(self, UserAction::Abort(_) | UserAction::ForceComplete(_))
    }
}

/// An act of a user on a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserAction {
    /// Resizes to this flavor.
    Resize(String),
    /// Migrates to the scheduler's choice.
    Migrate,
    /// Migrates to this host.
    MigrateTo(String),
    /// Moves the running server to the scheduler's choice.
    LiveMigrate,
    /// Moves the running server to this host.
    LiveMigrateTo(String),
    /// Moves the running server to this host, past the scheduler.
    ForceLiveMigrateTo(String),
    /// Aborts the live migration this many milliseconds after it is seen. Does not wait for rest.
    Abort(u64),
    /// Forces the live migration to its end this many milliseconds after it is seen. Does not wait for rest.
    ForceComplete(u64),
    /// Forces the server's host down, so that it can be evacuated from.
    ForceHostDown,
    /// Forces the hosts that this user forced down up again, as soon as they have been cleaned up.
    ForceHostUp,
    /// Has an operator drain the server's host, confirming cold moves, and waits until that is done.
    DrainHost,
    Evacuate,
    Shelve,
    ShelveOffload,
    Unshelve,
    Confirm,
    Revert,
    Stop,
    Start,
    SoftReboot,
    HardReboot,
    Rebuild,
    /// Lets the guest write to its disks.
    Write,
    Delete,
    /// Waits this many milliseconds.
    Wait(u64),
}
