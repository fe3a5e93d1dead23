//! The part of a create.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::part::part;
use super::{Candidates, CreateRequest, HostNeed, Part, Place, ServerFacts, as_request};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// A new server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Create {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<CreateRequest>,
    #[serde(flatten)]
    pub candidates: Candidates,
}

part!(Create);

impl Create {
    pub(super) fn begin(facts: ServerFacts, request: Box<CreateRequest>) -> Create {
        Create { facts, request, candidates: Candidates::default() }
    }
}

impl Part for Create {
    fn action(&self) -> &'static str {
        "create"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[]
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Scheduling)
    }

    fn here(&self) -> Option<&Place> {
        self.target.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        match self.here() {
            None => vec![("conductor_schedule_and_build_instances", None)],
            here => vec![("compute__do_build_and_run_instance", here)],
        }
    }

    fn makes_server(&self) -> bool {
        true
    }

    /// The request comes long before the choice of the cell that records the action.
    fn asked_at(&self) -> Option<DateTime<Utc>> {
        Some(self.request.instance.instance.created_at)
    }

    fn candidates(&self) -> Option<&Candidates> {
        Some(&self.candidates)
    }

    fn candidates_mut(&mut self) -> Option<&mut Candidates> {
        Some(&mut self.candidates)
    }

    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        Some((&self.request.config_drive, &self.request.sealed))
    }

    fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<Sealed>) {
        (self.request.config_drive, self.request.sealed) = (config, sealed);
        self.request.forget_files();
    }
}
