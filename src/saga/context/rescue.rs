//! The part of a rescue.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{HostNeed, Part, Place, ServerFacts, as_request};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// A request for a rescue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RescueRequest {
    /// The image from which the guest boots.
    pub image_id: Uuid,
    /// The configuration that the guest reads from the image's disk.
    pub config_drive: serde_json::Value,
    /// The guest's password, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A rescue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rescue {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<RescueRequest>,
}

part!(Rescue);

impl Rescue {
    pub(super) fn begin(facts: ServerFacts, request: Box<RescueRequest>) -> Rescue {
        Rescue { facts, request }
    }
}

impl Part for Rescue {
    fn action(&self) -> &'static str {
        "rescue"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Stopped, VmState::Error]
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Rescuing)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Guest
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_rescue_instance", self.here())]
    }

    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        Some((&self.request.config_drive, &self.request.sealed))
    }

    fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<Sealed>) {
        (self.request.config_drive, self.request.sealed) = (config, sealed);
    }
}
