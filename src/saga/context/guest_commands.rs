//! The parts of the operations that give the running guest a command: a crash dump, and another password.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{Part, Place, Rules};
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};

part! {
    /// A crash dump.
    CrashDump of nothing {}
}

impl Part for CrashDump {
    fn rules(&self) -> Rules {
        Rules::new("trigger_crash_dump", &[VmState::Active, VmState::Paused, VmState::Rescued, VmState::Resized, VmState::Error])
    }

    /// Between a move and its confirm the guest runs at the target.
    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    moves_no_bytes!();

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

part! {
    /// A change of the guest's password.
    ChangePassword of ChangePasswordRequest {}
}

impl Part for ChangePassword {
    fn rules(&self) -> Rules {
        Rules { first_task_state: Some(TaskState::UpdatingPassword), ..Rules::new("changePassword", &[VmState::Active]) }
    }

    moves_no_bytes!();

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
