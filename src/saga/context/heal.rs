//! The part of a healing: a server gets in placement what its flavor and its ports ask for, where it is.

use serde::{Deserialize, Serialize};

use super::part::part;
use super::{HealPlan, HostNeed, Part, Place, ServerFacts};
use crate::domain::server::{TaskState, VmState};

/// A healing of a server's allocation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Heal {
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// None before the operation has looked.
    #[serde(default)]
    pub plan: Option<HealPlan>,
}

part!(Heal);

impl Heal {
    pub(super) fn begin(facts: ServerFacts, (): ()) -> Heal {
        Heal { facts, plan: None }
    }
}

impl Part for Heal {
    fn action(&self) -> &'static str {
        "heal_allocations"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        use VmState::{Active, Error, Paused, Rescued, Shelved, SoftDeleted, Stopped, Suspended};
        &[Active, Stopped, Paused, Suspended, Rescued, Shelved, SoftDeleted, Error]
    }

    /// None: the guest and its host do not take part.
    fn first_task_state(&self) -> Option<TaskState> {
        None
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_heal_allocations", None)]
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}
