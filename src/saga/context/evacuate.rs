//! The part of an evacuation: a server leaves a host that is down.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{Candidates, EvacuateRequest, Part, Place, ServerFacts, as_request};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// An evacuation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Evacuate {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<EvacuateRequest>,
    #[serde(flatten)]
    pub candidates: Candidates,
    /// True if the source answered and has its guest off; false if it was dead, so that nothing was done to the guest. None before that is
    /// known.
    #[serde(default)]
    pub source_stopped: Option<bool>,
}

part!(Evacuate: Evacuate);

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

impl Part for Evacuate {
    fn action(&self) -> &'static str {
        if self.request.forced { "FORCED_REBUILD" } else { "evacuate" }
    }

    fn verb(&self) -> &'static str {
        "evacuate"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Stopped, VmState::Error]
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

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("rebuild_server", None)]
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

    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        Some((&self.request.config_drive, &self.request.sealed))
    }

    fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<Sealed>) {
        (self.request.config_drive, self.request.sealed) = (config, sealed);
    }
}
