//! The part of a healing: a server gets in placement what its flavor and its ports ask for, where it is.

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{HealPlan, HostNeed, Part, Place, Rules};
use crate::domain::server::VmState;

part! {
    /// A healing of a server's allocation.
    Heal of nothing {
        /// None before the operation has looked.
        #[serde(default)]
        plan: Option<HealPlan>,
    }
}

impl Part for Heal {
    fn rules(&self) -> Rules {
        use VmState::{Active, Error, Paused, Rescued, Shelved, SoftDeleted, Stopped, Suspended};
        Rules {
            // None: the guest and its host do not take part.
            first_task_state: None,
            waits_for_moves_debts: true,
            ..Rules::new("heal_allocations", &[Active, Stopped, Paused, Suspended, Rescued, Shelved, SoftDeleted, Error])
        }
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![("conductor_heal_allocations", None)]
    }
}
