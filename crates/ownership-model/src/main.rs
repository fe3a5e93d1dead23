//! Explores the rules of this release, and then each rule's absence, and prints what was found.

use std::process::ExitCode;

use ownership_model::{Bounds, Guard, Operator, Promise, Setting, WhoIsOff, explore};

/// Two conductors, of which one may have lost its lease; no host is in trouble.
const CONDUCTORS: Bounds = Bounds { operations: 2, attempts: 4, leases: 2, troubles: 0 };
/// One conductor, and hosts that are cut off and lose their power.
const HOSTS: Bounds = Bounds { operations: 2, attempts: 4, leases: 1, troubles: 2 };

fn main() -> ExitCode {
    let by_conductors = Setting::of_release(CONDUCTORS);
    let by_hosts = Setting::of_release(HOSTS);
    let fenced = |margin: u8| Setting { self_fence: Some(margin), ..by_hosts };
    let without = |setting: Setting, guard: Guard| Setting { left_out: Some(guard), ..setting };
    let mut is_as_expected = true;
    let mut judge = |name: &str, setting: Setting, holds: bool| {
        let explored = explore(&setting, &Promise::ALL);
        is_as_expected &= explored.breach.is_none() == holds;
        match explored.breach {
            None => println!("{name}: {} states, both promises hold", explored.states),
            Some(breach) => print!("{name}: {:?} is broken\n{breach}", breach.promise),
        }
    };
    judge("two conductors", by_conductors, true);
    judge("hosts in trouble", by_hosts, true);
    judge("hosts that fence themselves", fenced(1), true);
    judge("silence counts as off", Setting { off: WhoIsOff::BySilence, ..by_hosts }, false);
    judge("an operator's word outlives the host's return", Setting { operator: Operator::Careless, ..by_hosts }, false);
    judge("hosts that fence themselves, without a margin for clocks", fenced(0), false);
    for guard in [Guard::Fence, Guard::Counter, Guard::Lease, Guard::TargetsWord, Guard::OwnerFirst] {
        judge(&format!("without {guard:?}"), without(by_conductors, guard), false);
    }
    for guard in [Guard::OwnerAtRest, Guard::LateStart] {
        judge(&format!("without {guard:?}"), without(by_hosts, guard), false);
    }
    if is_as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
