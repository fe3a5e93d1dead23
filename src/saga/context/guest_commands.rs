//! The parts of the operations that give the running guest a command: a crash dump, and another password.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::part;
use super::{HostNeed, Part, Place, ServerFacts, as_request};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

/// A crash dump.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashDump {
    #[serde(flatten)]
    pub facts: ServerFacts,
}

part!(CrashDump);

impl CrashDump {
    pub(super) fn begin(facts: ServerFacts, (): ()) -> CrashDump {
        CrashDump { facts }
    }
}

impl Part for CrashDump {
    fn action(&self) -> &'static str {
        "trigger_crash_dump"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Paused, VmState::Rescued, VmState::Resized, VmState::Error]
    }

    fn first_task_state(&self) -> Option<TaskState> {
        None
    }

    /// Between a move and its confirm the guest runs at the target.
    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Guest
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_trigger_crash_dump", self.here())]
    }
}

/// Another password for the guest's administrator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChangePasswordRequest {
    /// The password, until the operation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A change of the guest's password.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChangePassword {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: ChangePasswordRequest,
}

part!(ChangePassword);

impl ChangePassword {
    pub(super) fn begin(facts: ServerFacts, request: ChangePasswordRequest) -> ChangePassword {
        ChangePassword { facts, request }
    }
}

impl Part for ChangePassword {
    fn action(&self) -> &'static str {
        "changePassword"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active]
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::UpdatingPassword)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Guest
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("compute_set_admin_password", self.here())]
    }

    fn first_boot(&self) -> Option<(&Value, &Option<Sealed>)> {
        Some((&Value::Null, &self.request.sealed))
    }

    fn set_first_boot(&mut self, _: Value, sealed: Option<Sealed>) {
        self.request.sealed = sealed;
    }
}
