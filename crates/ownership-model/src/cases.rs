//! The searches of `cargo run -p ownership-model` and of the tests.

use crate::explore::{Explored, Promise, explore};
use crate::setting::{Bounds, Guard, Operator, Setting, WhoIsOff};

/// Two conductors, of which one may have lost its lease. No host is in trouble.
const CONDUCTORS: Bounds = Bounds { operations: 2, attempts: 4, leases: 2, troubles: 0 };
/// A conductor, and hosts that are cut off and lose their power.
const HOSTS: Bounds = Bounds { operations: 2, attempts: 4, leases: 1, troubles: 2 };
/// As [`HOSTS`], with one operation, for hosts with clocks.
const CLOCKS: Bounds = Bounds { operations: 1, attempts: 3, leases: 1, troubles: 2 };

/// A search, and whether the promises hold in it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub setting: Setting,
    pub holds: bool,
}

impl Case {
    /// Explores the case. Looks for two running guests first, and for a guest on a host that is no owner then.
    pub fn explore(&self) -> Explored {
        match explore(&self.setting, &[Promise::OneRunningGuest]) {
            explored if explored.breach.is_some() => explored,
            _ => explore(&self.setting, &Promise::ALL),
        }
    }

    /// Returns what was found, in words.
    pub fn report(&self, explored: &Explored) -> String {
        match &explored.breach {
            None => format!("{}: {} states, both promises hold\n", self.name, explored.states),
            Some(breach) => format!("{}: {:?} is broken\n{breach}", self.name, breach.promise),
        }
    }
}

/// Returns the rules of this release, and hosts that fence themselves.
pub fn of_release() -> Vec<Case> {
    let case = |name, setting| Case { name, setting, holds: true };
    vec![
        case("two conductors", Setting::of_release(CONDUCTORS)),
        case("hosts in trouble", Setting::of_release(HOSTS)),
        case("hosts that fence themselves", Setting { self_fence: Some(1), ..Setting::of_release(CLOCKS) }),
    ]
}

/// Returns the searches in which silence, or a word that has had its time, counts as a word.
pub fn without_a_word() -> Vec<Case> {
    let case = |name, setting| Case { name, setting, holds: false };
    vec![
        case("silence counts as off", Setting { off: WhoIsOff::BySilence, ..Setting::of_release(HOSTS) }),
        case("a word outlives the host's return", Setting { operator: Operator::Careless, ..Setting::of_release(HOSTS) }),
        case("no margin for clocks", Setting { self_fence: Some(0), ..Setting::of_release(CLOCKS) }),
    ]
}

/// Returns a search without each guard.
pub fn without_guards() -> Vec<Case> {
    let case = |name, guard, bounds| {
        let setting = Setting { left_out: Some(guard), ..Setting::of_release(bounds) };
        Case { name, setting, holds: false }
    };
    vec![
        case("hosts obey any fence", Guard::Fence, CONDUCTORS),
        case("attempts are counted anew", Guard::Counter, CONDUCTORS),
        case("the journal needs no lease", Guard::Lease, CONDUCTORS),
        case("a silent target is left", Guard::TargetsWord, CONDUCTORS),
        case("the guest starts before its owner is named", Guard::OwnerFirst, CONDUCTORS),
        case("guests run on amid operations", Guard::OwnerAtRest, HOSTS),
        case("late starts are not asked about", Guard::LateStart, HOSTS),
    ]
}
