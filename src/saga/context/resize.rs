//! The part of a move: a resize or a cold migration, within a cell or across cells.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{Candidates, Part, Place, ResizeRequest, ServerFacts, as_request};
use crate::domain::guest::DiskManifest;
use crate::domain::server::{TaskState, VmState};

/// A resize or a cold migration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Resize {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<ResizeRequest>,
    #[serde(flatten)]
    pub candidates: Candidates,
    /// The temporary image that carries the local disks to another cell.
    pub snapshot: Option<Uuid>,
    /// The disks that the source has exported.
    pub manifest: Option<DiskManifest>,
}

part!(Resize: Resize);

impl Part for Resize {
    fn action(&self) -> &'static str {
        if self.request.migrate { "migrate" } else { "resize" }
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Stopped]
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::ResizePrep)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_migrate_server", None), ("cold_migrate", None)]
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
