//! The part of a move: a resize or a cold migration, within a cell or across cells.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{chooses_a_host, part};
use super::transfers::{export_read, image_read, image_stored};
use super::{Candidates, HostNeed, Part, Place, Rules};
use crate::db::cell::CellTxn;
use crate::domain::flavor::Flavor;
use crate::domain::guest::DiskManifest;
use crate::domain::host_transfer::HostTransfer;
use crate::domain::notification::Event;
use crate::domain::server::{TaskState, VmState};
use crate::saga::error::StepError;
use crate::saga::steps::records::{resize_record, status_of_failure};
use crate::saga::world::World;

/// A request for a resize, or for a cold migration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResizeRequest {
    /// The flavor after the move.
    pub flavor: Box<Flavor>,
    /// True for a migration: the flavor stays the same.
    pub migrate: bool,
    /// A host that an administrator demands.
    pub host: Option<String>,
    pub cross_cell_allowed: bool,
}

part! {
    /// A resize or a cold migration.
    Resize of Box<ResizeRequest> {
        #[serde(flatten)]
        candidates: Candidates,
        /// The temporary image that carries the local disks to another cell.
        snapshot: Option<Uuid>,
        /// The disks that the source has exported.
        manifest: Option<DiskManifest>,
    }
}

#[async_trait]
impl Part for Resize {
    fn rules(&self) -> Rules {
        Rules {
            first_task_state: Some(TaskState::ResizePrep),
            failure_event: Some(Event::MigrateServerError),
            copies_disks: true,
            waits_for_moves_debts: true,
            ..Rules::new(if self.request.migrate { "migrate" } else { "resize" }, &[VmState::Active, VmState::Stopped])
        }
    }

    chooses_a_host!();

    fn host_need(&self) -> HostNeed {
        HostNeed::Source
    }

    /// Across cells the snapshot carries the disks, within a cell the source's export does.
    fn transfers(&self) -> Vec<HostTransfer> {
        let upload = image_stored(self.source.as_ref(), self.snapshot);
        let download = image_read(self.target.as_ref(), self.snapshot);
        [upload, download, export_read(self)].into_iter().flatten().collect()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_migrate_server", None), ("cold_migrate", None)]
    }

    /// Users of Nova find the migration as soon as their request is answered.
    async fn first_writes(&self, world: &World, txn: CellTxn) -> Result<CellTxn, StepError> {
        Ok(txn.create_migration(resize_record(world, self).await?))
    }

    /// The undo of the step that records the move ends the record; it does not run for a move that turned back before that step.
    fn undone_writes(&self, _: &World, txn: CellTxn) -> CellTxn {
        txn.end_live_migration(self.saga, status_of_failure(self))
    }

    fn names_host(&self) -> bool {
        self.request.host.is_some()
    }
}
