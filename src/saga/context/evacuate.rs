//! The part of an evacuation: a server leaves a host that is down.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{chooses_a_host, has_first_boot, part};
use super::transfers::image_read;
use super::{Candidates, HostNeed, Part, Place, Rules};
use crate::db::cell::CellTxn;
use crate::domain::host_transfer::HostTransfer;
use crate::domain::notification::Event;
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};
use crate::saga::error::StepError;
use crate::saga::steps::evacuation::evacuation_record;
use crate::saga::steps::records::status_of_failure;
use crate::saga::world::World;

/// An evacuation: the server's host is down, and another host builds its guest anew.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EvacuateRequest {
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// True if the demanded host is taken without the scheduler's filters.
    pub bypasses_scheduler: bool,
    /// True if the administrator forced that with `force`: the action's name says so.
    pub forced: bool,
    /// True if the guest of an active server is built but not started.
    pub stays_off: bool,
    /// The image of the root disk; none if the root disk is a volume.
    pub image_id: Option<Uuid>,
    /// The configuration that the guest reads at its first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

part! {
    /// An evacuation.
    Evacuate of Box<EvacuateRequest> {
        #[serde(flatten)]
        candidates: Candidates,
        /// True if the source answered and has its guest off; false if it was dead, so that nothing was done to the guest. None before that is
        /// known.
        #[serde(default)]
        source_stopped: Option<bool>,
    }
}

impl Evacuate {
    /// True if the guest runs at its target: a server that was off stays off, and one in ERROR is to run again.
    pub fn starts(&self) -> bool {
        match self.prior.as_ref().map(|prior| prior.vm_state) {
            Some(VmState::Stopped) => false,
            Some(VmState::Error) => true,
            _ => !self.request.stays_off,
        }
    }
}

#[async_trait]
impl Part for Evacuate {
    fn rules(&self) -> Rules {
        Rules {
            verb: "evacuate",
            first_task_state: Some(TaskState::Rebuilding),
            refuses_waiting_move: true,
            failure_event: Some(Event::RebuildServerError),
            copies_disks: true,
            waits_for_moves_debts: true,
            ..Rules::new(
                if self.request.forced { "FORCED_REBUILD" } else { "evacuate" },
                &[VmState::Active, VmState::Stopped, VmState::Error],
            )
        }
    }

    chooses_a_host!();

    fn forced_host(&self) -> Option<&str> {
        self.request.host.as_deref().filter(|_| self.request.forced)
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::SourceDown
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        Vec::from_iter(image_read(self.target.as_ref(), self.request.image_id))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("rebuild_server", None)]
    }

    /// Users of Nova find the migration as soon as their request is answered.
    async fn first_writes(&self, world: &World, txn: CellTxn) -> Result<CellTxn, StepError> {
        Ok(txn.create_migration(evacuation_record(world, self).await?))
    }

    /// The undo of the step that records the move ends the record; it does not run for a move that turned back before that step.
    fn undone_writes(&self, _: &World, txn: CellTxn) -> CellTxn {
        txn.end_live_migration(self.saga, status_of_failure(self))
    }

    fn names_host(&self) -> bool {
        self.request.host.is_some() && !self.request.bypasses_scheduler
    }

    has_first_boot!();
}
