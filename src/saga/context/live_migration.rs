//! The part of a live migration, which stays within its cell.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::part::{chooses_a_host, part};
use super::transfers::export_read;
use super::{Candidates, HostNeed, Part, Place, Rules};
use crate::db::cell::CellTxn;
use crate::domain::guest::{DiskManifest, DiskPart};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::notification::Event;
use crate::domain::server::{TaskState, VmState};
use crate::saga::error::StepError;
use crate::saga::steps::live_records::{live_record, status_of_live_end};
use crate::saga::world::World;

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

part! {
    /// A live migration.
    LiveMigrate of LiveMigrateRequest {
        #[serde(flatten)]
        candidates: Candidates,
        /// True once the source host has taken the migration up: a failure from then on is the hosts' (`failed`), not the choice's (`error`).
        taken_up: bool,
        /// True once a copy was given up, and the abort told if a user wanted it.
        #[serde(default)]
        copy_given_up: bool,
        /// The disks that the source has left in the transfer area.
        manifest: Option<DiskManifest>,
        /// The memory that the source has left there.
        memory: Option<DiskPart>,
    }
}

#[async_trait]
impl Part for LiveMigrate {
    fn rules(&self) -> Rules {
        Rules {
            verb: "os-migrateLive",
            first_task_state: Some(TaskState::Migrating),
            needs_memory: true,
            failure_event: Some(Event::MigrateServerError),
            copies_disks: true,
            waits_for_moves_debts: true,
            ..Rules::new(if self.request.forced { "FORCED_MIGRATE" } else { "live-migration" }, &[VmState::Active, VmState::Paused])
        }
    }

    chooses_a_host!();

    fn forced_host(&self) -> Option<&str> {
        self.request.host.as_deref().filter(|_| self.request.forced)
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Source
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        Vec::from_iter(export_read(self))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_live_migrate_instance", None)]
    }

    /// Users of Nova find the migration as soon as their request is answered.
    async fn first_writes(&self, world: &World, txn: CellTxn) -> Result<CellTxn, StepError> {
        Ok(txn.create_migration(live_record(world, self).await?))
    }

    /// The undo of the step that records the move ends the record; it does not run for a move that turned back before that step.
    fn undone_writes(&self, _: &World, txn: CellTxn) -> CellTxn {
        txn.end_live_migration(self.saga, status_of_live_end(self))
    }

    fn names_host(&self) -> bool {
        self.request.host.is_some() && !self.request.unchecked
    }
}
