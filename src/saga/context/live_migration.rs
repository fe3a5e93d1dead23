//! The part of a live migration, which stays within its cell.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{Candidates, Part, Place, ServerFacts, as_request};
use crate::domain::guest::{DiskManifest, DiskPart};
use crate::domain::server::{TaskState, VmState};

/// A request for a live migration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LiveMigrateRequest {
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// Whether local disks are copied; none to do as the server's disks demand.
    pub block_migration: Option<bool>,
    /// True if the caller forces the host: the action's name says so.
    pub forced: bool,
    /// True if the scheduler is not asked about the named host: it is forced, or the request's version knows no check of it.
    pub unchecked: bool,
}

/// A live migration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LiveMigrate {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: LiveMigrateRequest,
    #[serde(flatten)]
    pub candidates: Candidates,
    /// True once the source host has taken the migration up: a failure from then on is the hosts' (`failed`), not the choice's (`error`).
    pub taken_up: bool,
    /// True once a copy was given up, and the abort told if a user wanted it.
    #[serde(default)]
    pub copy_given_up: bool,
    /// The disks that the source has left in the transfer area.
    pub manifest: Option<DiskManifest>,
    /// The memory that the source has left there.
    pub memory: Option<DiskPart>,
}

impl LiveMigrate {
    pub(super) fn new(facts: ServerFacts, request: LiveMigrateRequest) -> LiveMigrate {
        LiveMigrate {
            facts,
            request,
            candidates: Candidates::default(),
            taken_up: false,
            copy_given_up: false,
            manifest: None,
            memory: None,
        }
    }
}

part!(LiveMigrate: LiveMigrate);

impl Part for LiveMigrate {
    fn action(&self) -> &'static str {
        if self.request.forced { "FORCED_MIGRATE" } else { "live-migration" }
    }

    fn verb(&self) -> &'static str {
        "os-migrateLive"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Paused]
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Migrating)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_live_migrate_instance", None)]
    }

    fn candidates(&self) -> Option<&Candidates> {
        Some(&self.candidates)
    }

    fn candidates_mut(&mut self) -> Option<&mut Candidates> {
        Some(&mut self.candidates)
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}
