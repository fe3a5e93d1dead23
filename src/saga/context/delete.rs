//! The part of a delete.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{Part, Place, ServerFacts};
use crate::domain::server::{TaskState, VmState};

/// A delete.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Delete {
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// Volumes that are deleted with the server.
    pub volumes_to_delete: Vec<Uuid>,
    /// The image of a shelved server's root disk.
    #[serde(default)]
    pub shelved_image: Option<Uuid>,
}

part!(Delete: Delete);

impl Part for Delete {
    fn action(&self) -> &'static str {
        "delete"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        use VmState::{Active, Building, Error, Paused, Rescued, Resized, Shelved, ShelvedOffloaded, Stopped, Suspended};
        &[Building, Active, Paused, Suspended, Rescued, Stopped, Resized, Error, Shelved, ShelvedOffloaded]
    }

    fn needs_launch(&self) -> bool {
        false
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Deleting)
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_terminate_instance", self.here())]
    }
}
