//! The parts of the operations that end a move: confirm and revert.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{HostNeed, Part, Place, Rules};
use crate::domain::instance::Instance;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::Event;
use crate::domain::server::{TaskState, VmState};

/// A request for a confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ConfirmRequest {
    /// True if the resize waited for longer than the operator's window.
    pub automatic: bool,
    /// The only move that may be confirmed; none allows whichever waits. Its requester has looked earlier, and the user may have moved since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Uuid>,
}

part! {
    /// A confirm.
    Confirm of ConfirmRequest {}
}

impl Part for Confirm {
    fn rules(&self) -> Rules {
        Rules {
            verb: "confirm_resize",
            // None, as in Nova: users see VERIFY_RESIZE without a task.
            first_task_state: None,
            ended_move: Some(MigrationStatus::Confirming),
            failure_event: Some(Event::MigrateServerError),
            waits_for_moves_debts: true,
            ..Rules::new("confirmResize", &[VmState::Resized])
        }
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.crosses_cells() {
            true => vec![("conductor_confirm_snapshot_based_resize", None)],
            false => vec![("compute_confirm_resize", self.source.as_ref())],
        }
    }

    fn only_move(&self) -> Option<Uuid> {
        self.request.migration
    }
}

part! {
    /// A revert.
    Revert of nothing {
        /// True if the guest ran before the move.
        running_before_move: bool,
    }
}

impl Part for Revert {
    fn rules(&self) -> Rules {
        Rules {
            verb: "revert_resize",
            first_task_state: Some(TaskState::ResizeReverting),
            ended_move: Some(MigrationStatus::Reverting),
            failure_event: Some(Event::MigrateServerError),
            waits_for_moves_debts: true,
            ..Rules::new("revertResize", &[VmState::Resized])
        }
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    /// A revert that cannot end must not begin (NOVA-DIFFERENCES L11, L34).
    fn host_need(&self) -> HostNeed {
        HostNeed::Source
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.crosses_cells() {
            true => vec![("conductor_revert_snapshot_based_resize", None)],
            false => vec![("compute_revert_resize", self.target.as_ref())],
        }
    }

    fn runs_when_done(&self) -> bool {
        self.running_before_move
    }

    /// A revert restores the state before the move.
    fn read_move(&mut self, record: &Instance) {
        let Some(old) = record.old_vm_state else { return };
        self.running_before_move = old == VmState::Active;
        if let Some(prior) = &mut self.prior {
            prior.launched = true;
        }
    }
}
