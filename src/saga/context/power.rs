//! The part of a start, a stop and a reboot.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{Part, Place, PowerRequest, ServerFacts, as_request};
use crate::domain::server::{TaskState, VmState};

/// A start, a stop or a reboot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Power {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: PowerRequest,
    /// True if the server is in ERROR while a move waits for confirm or revert: after a hard reboot it waits for them again.
    #[serde(default)]
    pub awaits_confirm: bool,
}

part!(Power: Start, Stop, Reboot);

impl Part for Power {
    fn action(&self) -> &'static str {
        match self.request {
            PowerRequest::Start => "start",
            PowerRequest::Stop => "stop",
            PowerRequest::Reboot { .. } => "reboot",
        }
    }

    fn allowed_states(&self) -> &'static [VmState] {
        use VmState::{Active, Error, Stopped};
        match self.request {
            PowerRequest::Start => &[Stopped],
            PowerRequest::Stop => &[Active, Error],
            PowerRequest::Reboot { hard: false } => &[Active],
            PowerRequest::Reboot { hard: true } => &[Active, Stopped, Error],
        }
    }

    fn needs_launch(&self) -> bool {
        !matches!(self.request, PowerRequest::Reboot { .. })
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(match self.request {
            PowerRequest::Start => TaskState::PoweringOn,
            PowerRequest::Stop => TaskState::PoweringOff,
            PowerRequest::Reboot { hard: true } => TaskState::RebootingHard,
            PowerRequest::Reboot { hard: false } => TaskState::Rebooting,
        })
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        let event = match self.request {
            PowerRequest::Start => "compute_start_instance",
            PowerRequest::Stop => "compute_stop_instance",
            PowerRequest::Reboot { .. } => "compute_reboot_instance",
        };
        vec![(event, self.here())]
    }
}
