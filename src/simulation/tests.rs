//! Tests that the simulation replays, that it finds planted faults, and that its fixed seeds are good.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::trace::Trace;
use super::virtual_env::{RunClock, env};
use super::watch::Watch;
use super::*;
use crate::actors::compute_host::HostPlace;
use crate::chaos::borders::Outage;
use crate::chaos::experiment::fault::{AtStep, What, When};
use crate::chaos::experiment::journey::{Journey, UserAction};
use crate::chaos::experiment::scenario::Workload;
use crate::chaos::point::{Moment, StepFault};
use crate::db::{Db, Schema};
use crate::domain::flavor::Flavor;
use crate::domain::guest::{DiskSource, GuestSpec};
use crate::virt::StopCause;

fn small() -> Scenario {
    let workload = Workload { servers: 8, actions: Some(40), seconds: 20, ..Workload::default() };
    Scenario { workload, ..Scenario::default() }
}

#[test]
fn a_seed_replays_to_the_same_trace() {
    let options = &Options { whole_trace: true, ..Options::default() };
    let first = run(1, &small(), options).unwrap();
    let second = run(1, &small(), options).unwrap();
    let differs = first.trace.iter().zip(&second.trace).position(|(first, second)| first != second);
    if let Some(at) = differs {
        panic!("line {at} differs:\n{}\n{}", first.trace[at], second.trace[at]);
    }
    assert_eq!(first.hash, second.hash);
    assert_ne!(first.hash, run(2, &small(), options).unwrap().hash);
}

/// Covers a normal run of the tests: each seed twice.
#[test]
fn fixed_seeds_are_good_and_replay() {
    for seed in 10..14 {
        let faults = draw::drawn(seed, &small());
        let first = run_with(seed, &small(), &faults, &Options::default()).unwrap();
        let report = format!("{:#?}\n{:?}\n{}", first.findings.violations, first.findings.unreachable, first.trace.join("\n"));
        assert!(first.is_good(), "seed {seed} (cellshift simulate --seed {seed} with this test's scenario):\n{report}");
        assert!(first.moves() > 0, "seed {seed} moves nothing");
        assert_eq!(first.hash, run_with(seed, &small(), &faults, &Options::default()).unwrap().hash, "seed {seed} does not replay");
    }
}

#[test]
fn the_watch_sees_foreign_and_second_guests_and_repeats() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(RunClock::virtual_time());
        let env = env(1, clock.clone());
        let open = |schema| Db::open("memory", "", schema, &env).unwrap();
        let watch = Arc::new(Watch::new(Trace::new(clock, true), &open(Schema::Api), &open(Schema::Services)));
        let (folder, drivers) = (cloud::folder().unwrap(), driver::watched(watch.clone()));
        let seen = |watch: &Watch| watch.violations().into_iter().map(|violation| violation.invariant).collect::<Vec<_>>();
        let server = Uuid::from_u128(7);
        let mut hosts = Vec::new();
        for host in ["one", "two"] {
            let place = HostPlace { cell: "cell1".into(), host: host.into(), cell_dir: folder.path().to_owned() };
            let hypervisor = drivers(&place, &env).unwrap();
            std::fs::write(hypervisor.clear_incoming(server).unwrap().join("disk"), b"bytes").unwrap();
            hypervisor.define(&guest(server), &BTreeMap::new()).unwrap();
            hosts.push(hypervisor);
        }
        assert!(seen(&watch).is_empty());
        hosts[0].start(server, 1).unwrap();
        assert_eq!(seen(&watch), ["I2"], "nobody owns the server");
        hosts[1].start(server, 1).unwrap();
        assert_eq!(seen(&watch)[1..], ["I1", "I2", "I2"], "it runs twice");
        hosts[1].stop(server, StopCause::Operation(server), false).unwrap();
        hosts[0].stop(server, StopCause::Operation(server), false).unwrap();
        let before = seen(&watch).len();
        hosts[0].start(server, 1).unwrap();
        assert_eq!(seen(&watch)[before..], ["I7", "I2"], "it went on twice under one attempt");
    });
}

fn guest(server: Uuid) -> GuestSpec {
    GuestSpec {
        server,
        instance_name: "instance-00000001".into(),
        flavor: Flavor::default(),
        disks: DiskSource::Image { image_id: server },
        volumes: vec![],
        vifs: vec![],
        config_drive: serde_json::Value::Null,
        sealed: None,
    }
}

#[test]
fn a_start_without_a_journal_goes_on_when_it_returns() {
    let away = What::Database { name: "api".into(), outage: Outage::Refuses, calls: u32::MAX, for_ms: 10_000 };
    let fault = |ms, what| PlannedFault::once(When::At(ms), what);
    let outcome = run_with(5, &small(), &[fault(6000, away), fault(6001, What::Restart)], &Options::default()).unwrap();
    assert!(outcome.is_good(), "{:#?}\n{}", outcome.findings.violations, outcome.trace.join("\n"));
    assert_eq!(outcome.findings.lives, 2, "the second life lasts");
}

/// The guest has started although the step reports failure. Unwinding would leave a running guest without an owner.
#[test]
fn a_target_whose_guest_runs_is_not_left() {
    let acts = vec![UserAction::Resize("gen2.small".into())];
    let workload = Workload { servers: 0, journeys: vec![Journey { acts, ..Journey::default() }], ..Workload::default() };
    let scenario = Scenario { workload, ..Scenario::default() };
    let at = AtStep { step: "start_at_target".into(), saga: None, side: "act".into(), moment: Moment::AfterEffect, occurrence: 1 };
    let faults = [PlannedFault::once(When::Step(at), What::Step(StepFault::Refuse))];
    let outcome = run_with(1, &scenario, &faults, &Options::default()).unwrap();
    assert!(outcome.is_good(), "{:#?}\n{}", outcome.findings.violations, outcome.trace.join("\n"));
    let moves: Vec<bool> = outcome.findings.migrations.iter().filter(|one| one.is_move()).map(|one| one.arrived()).collect();
    assert_eq!((outcome.findings.injected.len(), moves), (1, vec![true]), "it goes forward");
}

fn conductor() -> What {
    What::Kill { actor: "conductor".into() }
}

#[test]
fn a_process_ends_when_its_conductor_dies_too_often() {
    let faults: Vec<_> = (0..6).map(|number| PlannedFault::once(When::At(3000 + number * 500), conductor())).collect();
    let outcome = run_with(6, &small(), &faults, &Options { whole_trace: true, ..Options::default() }).unwrap();
    assert!(outcome.is_good(), "{:#?}\n{}", outcome.findings.violations, outcome.trace.join("\n"));
    assert_eq!(outcome.findings.lives, 2);
    assert!(outcome.trace.iter().any(|line| line.contains("the process ends by itself: conductor died 6 times")));
}
