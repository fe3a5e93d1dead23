//! The part of a delete.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{Part, Place, ServerFacts};
use crate::domain::server::{TaskState, VmState};

/// A delete, or a soft delete.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delete {
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// Volumes that are deleted with the server.
    pub volumes_to_delete: Vec<Uuid>,
    /// The image of a shelved server's root disk.
    #[serde(default)]
    pub shelved_image: Option<Uuid>,
    /// True for a soft delete: the server's user may restore it for a while.
    #[serde(default)]
    pub deferred: bool,
    /// True if the time of a soft-deleted server has ended. A server that its user restores meanwhile stays.
    #[serde(default)]
    pub reclaims: bool,
}

impl Delete {
    /// Makes the part of a delete for good.
    pub fn new(facts: ServerFacts) -> Delete {
        Delete { facts, volumes_to_delete: Vec::new(), shelved_image: None, deferred: false, reclaims: false }
    }

    /// Makes this a delete for good if nothing of the server could be restored: it never ran, or it is on no host.
    pub fn defer_only_what_can_be_restored(&mut self) {
        let launched = self.prior.as_ref().is_some_and(|prior| prior.launched);
        self.deferred &= launched && self.here().is_some();
    }
}

part!(Delete: Delete);

impl Part for Delete {
    fn action(&self) -> &'static str {
        "delete"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        use VmState::{Active, Building, Error, Paused, Rescued, Resized, Shelved, ShelvedOffloaded, SoftDeleted, Stopped, Suspended};
        if self.reclaims {
            return &[SoftDeleted];
        }
        &[Building, Active, Paused, Suspended, Rescued, Stopped, Resized, Error, Shelved, ShelvedOffloaded, SoftDeleted]
    }

    fn needs_launch(&self) -> bool {
        false
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(if self.deferred { TaskState::SoftDeleting } else { TaskState::Deleting })
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        let event = if self.deferred { "compute_soft_delete_instance" } else { "compute_terminate_instance" };
        vec![(event, self.here())]
    }
}
