//! Tests of the judgement of findings.

use super::*;
use crate::chaos::experiment::fault::{AtStep, What, When};
use crate::chaos::experiment::scenario::Expect;
use crate::chaos::point::StepFault;

fn migration(id: u128, state: &str, began_ms: u64, ended_ms: u64) -> MigrationEnd {
    let step = |name: &str| StepReport {
        step: name.into(),
        side: "act".into(),
        attempt: 1,
        outcome: Some("ok".into()),
        error: None,
        begun_ms: began_ms,
        ended_ms: Some(ended_ms),
    };
    MigrationEnd {
        uuid: Uuid::from_u128(id),
        server: Uuid::from_u128(100 + id),
        saga: "resize".into(),
        state: state.into(),
        error: None,
        began_ms,
        ended_ms,
        steps: vec![step("accept"), step("record_migration")],
        faults: Vec::new(),
        recovery_ms: None,
    }
}

fn findings(migrations: Vec<MigrationEnd>, injected: Vec<Injected>) -> Findings {
    let mut migrations = migrations;
    migrations.iter_mut().for_each(|migration| migration.met(&injected));
    Findings {
        mode: Mode::Simulation,
        seed: 1,
        elapsed_ms: 10_000,
        lives: 1,
        injected,
        migrations,
        violations: Vec::new(),
        unreachable: Vec::new(),
        answers: BTreeMap::from([("202".to_owned(), 3)]),
        servers_in_error: 0,
        aborted: None,
    }
}

fn at(at_ms: u64, fault: usize, saga: Option<u128>) -> Injected {
    Injected { at_ms, fault, saga: saga.map(Uuid::from_u128), alone: saga.is_some(), ..Injected::default() }
}

fn planned() -> Vec<PlannedFault> {
    let killed = PlannedFault::once(When::Step(AtStep::before("publish")), What::Step(StepFault::KillActor));
    vec![killed, PlannedFault::once(When::At(500), What::Restart)]
}

fn scenario(expect: Expect) -> Scenario {
    Scenario { faults: Some(planned()), expect, ..Scenario::default() }
}

#[test]
fn a_run_in_which_all_held_says_what_recovered_when() {
    let migrations = vec![migration(1, "done", 0, 1_000), migration(2, "unwound", 400, 3_000), migration(3, "done", 600, 900)];
    let findings = findings(migrations, vec![at(500, 1, None), at(700, 0, Some(2))]);
    assert_eq!(findings.migrations[0].faults, [0], "in flight when the process was killed");
    assert_eq!(findings.migrations[1].faults, [0, 1]);
    assert!(findings.migrations[2].faults.is_empty(), "it began later, and the other fault was another's");
    let expect = Expect { arrived: Some(Bounds { at_least: Some(2), at_most: None }), ..Expect::default() };
    let verdict = Verdict::of(&scenario(expect), &planned(), findings);
    assert_eq!(verdict.conclusion, Conclusion::Held, "{:#?}", verdict.expectations);
    assert_eq!(verdict.recovery, Some(Recovery { migrations: 2, median_ms: 500, p99_ms: 2_500, longest_ms: 2_500 }));
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!((&json["conclusion"], &json["migrations"][1]["state"]), (&"held".into(), &"unwound".into()));
    assert_eq!(serde_json::from_value::<Verdict>(json).unwrap(), verdict);
}

#[test]
fn an_expectation_that_is_not_met_breaks_the_verdict() {
    let moved = || findings(vec![migration(1, "done", 0, 1_000)], vec![at(500, 1, None), at(700, 0, Some(1))]);
    let bounds = |at_least, at_most| Some(Bounds { at_least, at_most });
    for expect in [
        Expect { arrived: bounds(Some(2), None), ..Expect::default() },
        Expect { returned: bounds(Some(1), None), ..Expect::default() },
        Expect { lives: bounds(Some(2), Some(2)), ..Expect::default() },
        Expect { recovery_p99_ms: Some(499), ..Expect::default() },
    ] {
        let verdict = Verdict::of(&scenario(expect), &planned(), moved());
        assert_eq!(verdict.conclusion, Conclusion::Broken, "{:#?}", verdict.expectations);
    }
    let mut waits = moved();
    waits.injected.pop();
    let verdict = Verdict::of(&scenario(Expect::default()), &planned(), waits);
    assert_eq!((verdict.conclusion, verdict.not_injected.len()), (Conclusion::Broken, 1), "a fault waited in vain");
    let mut violated = moved();
    violated.violations.push(Violation { invariant: "I1".into(), subject: "s".into(), message: "m".into() });
    assert_eq!(Verdict::of(&scenario(Expect::default()), &planned(), violated).conclusion, Conclusion::Broken);
}

#[test]
fn a_run_that_gave_up_or_was_not_looked_at_wholly_is_incomplete() {
    let mut gave_up = findings(vec![migration(1, "unwound", 0, 1_000)], Vec::new());
    gave_up.aborted = Some("9 answers failed".into());
    let expect = Expect { arrived: Some(Bounds { at_least: Some(1), at_most: None }), ..Expect::default() };
    assert_eq!(Verdict::of(&scenario(expect), &planned(), gave_up.clone()).conclusion, Conclusion::Incomplete);
    gave_up.violations.push(Violation { invariant: "I1".into(), subject: "s".into(), message: "m".into() });
    assert_eq!(Verdict::of(&scenario(Expect::default()), &planned(), gave_up).conclusion, Conclusion::Broken);
    let mut silent = findings(Vec::new(), vec![at(500, 1, None), at(700, 0, None)]);
    silent.unreachable.push("cell2".into());
    assert_eq!(Verdict::of(&scenario(Expect::default()), &planned(), silent).conclusion, Conclusion::Incomplete);
}
