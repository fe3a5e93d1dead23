//! The part of a rebuild.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{HostNeed, Part, Place, RebuildRequest, ServerFacts, as_request};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// A rebuild.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rebuild {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<RebuildRequest>,
}

part!(Rebuild);

impl Rebuild {
    pub(super) fn begin(facts: ServerFacts, request: Box<RebuildRequest>) -> Rebuild {
        Rebuild { facts, request }
    }
}

impl Part for Rebuild {
    fn action(&self) -> &'static str {
        "rebuild"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Stopped, VmState::Error]
    }

    fn needs_launch(&self) -> bool {
        false
    }

    fn refuses_waiting_move(&self) -> bool {
        true
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Rebuilding)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Guest
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("rebuild_server", None), ("compute_rebuild_instance", self.here())]
    }

    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        Some((&self.request.config_drive, &self.request.sealed))
    }

    fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<Sealed>) {
        (self.request.config_drive, self.request.sealed) = (config, sealed);
    }
}
