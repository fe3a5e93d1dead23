//! Tests of live migrations and evacuations under single faults that need a host that dies or is not reached.

use super::*;
use crate::chaos::experiment::fault::{AtStep, What, When};
use crate::chaos::experiment::journey::{Journey, UserAction};
use crate::chaos::experiment::scenario::{Topology, Workload};
use crate::chaos::experiment::verdict::MigrationEnd;
use crate::chaos::point::{Moment, StepFault};

/// Has a server make this journey in a cell of three hosts, under these faults. Returns whether each move arrived.
fn journey(acts: Vec<UserAction>, faults: &[PlannedFault]) -> Vec<bool> {
    let journeys = vec![Journey { flavor: "m1.tiny".into(), volumes: 1, acts, ..Journey::default() }];
    let workload = Workload { servers: 0, journeys, ..Workload::default() };
    let topology = Topology { cells: 1, ..Topology::default() };
    let scenario = Scenario { workload, topology, faults: Some(faults.to_vec()), ..Scenario::default() };
    let outcome = run_with(1, &scenario, faults, &Options::default()).unwrap();
    assert!(outcome.is_good(), "{:#?}\n{}", outcome.findings.violations, outcome.trace.join("\n"));
    assert!(outcome.findings.injected.len() >= faults.len(), "{:#?}", outcome.findings.injected);
    outcome.findings.migrations.iter().filter(|one| one.is_move()).map(MigrationEnd::arrived).collect()
}

fn at(step: &str, side: &str, moment: Moment) -> When {
    When::Step(AtStep { side: side.into(), moment, ..AtStep::before(step) })
}

/// The guest has run at the target, and its host has lost it since. The source has a guest of before, which must not run on.
#[test]
fn a_target_where_a_live_guest_ran_is_not_left() {
    let lost = What::HostOff { host: "target".into(), for_ms: 1000, resume_guests: false };
    let faults = [
        PlannedFault::once(at("resume_at_target", "act", Moment::AfterEffect), What::Step(StepFault::Refuse)),
        PlannedFault::once(at("resume_at_target", "undo", Moment::BeforeEffect), lost),
    ];
    assert_eq!(journey(vec![UserAction::LiveMigrate, UserAction::Write], &faults), [true], "it goes forward");
}

/// The source counts as down, runs the guest and is not reached for a while. Nothing is started elsewhere before it has said that the guest
/// is off.
#[test]
fn a_living_source_that_is_not_reached_is_waited_for() {
    let cut = What::Partition { cell: "cell1".into(), for_ms: 2000 };
    let unheard = PlannedFault::once(at("fence_source", "act", Moment::BeforeEffect), cut);
    let acts = vec![UserAction::ForceHostDown, UserAction::Evacuate, UserAction::ForceHostUp, UserAction::Write];
    assert_eq!(journey(acts, &[unheard]), [true], "it goes when its source answers");
}

#[test]
fn a_shelved_server_survives_a_host_that_dies_while_it_leaves() {
    let off = What::HostOff { host: "source".into(), for_ms: 5000, resume_guests: true };
    let acts = vec![UserAction::Write, UserAction::Shelve, UserAction::ShelveOffload, UserAction::Unshelve, UserAction::Write];
    assert_eq!(journey(acts, &[PlannedFault::once(at("disown", "act", Moment::AfterEffect), off)]), [false; 0]);
}
