//! The parts of the operations that end a move: confirm and revert.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{ConfirmRequest, Part, Place, ServerFacts, as_request};
use crate::domain::server::{TaskState, VmState};

/// A confirm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Confirm {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: ConfirmRequest,
}

part!(Confirm: Confirm);

impl Part for Confirm {
    fn action(&self) -> &'static str {
        "confirmResize"
    }

    fn verb(&self) -> &'static str {
        "confirm_resize"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Resized]
    }

    /// None, as in Nova: users see VERIFY_RESIZE without a task.
    fn first_task_state(&self) -> Option<TaskState> {
        None
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.crosses_cells() {
            true => vec![("conductor_confirm_snapshot_based_resize", None)],
            false => vec![("compute_confirm_resize", self.source.as_ref())],
        }
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}

/// A revert.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Revert {
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// True if the guest ran before the move.
    pub running_before_move: bool,
}

part!(Revert: Revert);

impl Part for Revert {
    fn action(&self) -> &'static str {
        "revertResize"
    }

    fn verb(&self) -> &'static str {
        "revert_resize"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Resized]
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::ResizeReverting)
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.crosses_cells() {
            true => vec![("conductor_revert_snapshot_based_resize", None)],
            false => vec![("compute_revert_resize", self.target.as_ref())],
        }
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}
