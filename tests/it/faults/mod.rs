//! The failure harness (reliability §4, layer 2): every registered saga × step × act and undo × fault. Each case ends as the
//! rules demand, leaves the server as it was or where it was to go, and leaves a world that the audit finds clean.
//!
//! A plain run takes the cases in which a step is refused or its reply is lost, once, at every step. `CELLSHIFT_FAULTS=words`
//! runs the cases whose name (`step/side/moment/fault/times`) contains the words, and `CELLSHIFT_FAULTS=all` the whole matrix,
//! which takes an hour on a disk and minutes in memory.

mod plan;
mod scenario;
mod view;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use cellshift::actors::conductor::PayDebts;
use cellshift::chaos::point::{Fault, Moment};
use cellshift::db::api::operations::{SagaFilter, SagaRecord};
use cellshift::db::cell::actions::ActionFilter;
use cellshift::domain::migration::MigrationStatus;
use cellshift::saga::step::Table;
use cellshift::saga::tables;

use crate::cloud::{Cloud, PATIENCE, difference};
use plan::{Armed, Case, End};
use scenario::{Beginning, Begun, Scenario};
use view::{View, gist};

/// One scenario's run through its cases.
struct Run {
    scenario: &'static Scenario,
    table: Table,
    cloud: Cloud,
    /// A server at the beginning, with its view, that the next case can take.
    ready: Option<(Begun, View)>,
    /// Where the operation leads when nothing fails.
    success: View,
}

fn every_fault(name: &str) {
    let scenario = scenario::ALL.iter().find(|scenario| scenario.name == name).expect("a scenario");
    let table = tables::ALL.iter().find(|(saga, _)| *saga == scenario.saga).expect("a registered saga").1;
    let words = std::env::var("CELLSHIFT_FAULTS").ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let failures = runtime.block_on(async {
        let mut run = Run::start(scenario, table).await;
        let mut failures = Vec::new();
        for case in plan::cases(&table).into_iter().filter(|case| is_wanted(&case.to_string(), words.as_deref())) {
            if let Err(why) = run.case(case).await {
                let failure = format!("== {name} {case}\n{why}\n{}", run.journal().await);
                // Seen at once: the matrix is long.
                eprintln!("{failure}");
                failures.push(format!("{case}"));
                run = Run::start(scenario, table).await;
            }
        }
        failures
    });
    assert!(failures.is_empty(), "{} cases failed\n{}", failures.len(), failures.join("\n"));
}

/// Whether a run takes the case.
fn is_wanted(case: &str, words: Option<&str>) -> bool {
    match words {
        None => case.ends_with("Refuse/1") || case.ends_with("LoseReply/1"),
        Some("all") => true,
        Some(words) => case.contains(words),
    }
}

impl Run {
    /// A fresh cloud, and one run without any fault to see where the operation leads.
    async fn start(scenario: &'static Scenario, table: Table) -> Run {
        let mut run = Run { scenario, table, cloud: Cloud::start().await, ready: None, success: View::new() };
        let (begun, _) = run.begin().await;
        let server = (scenario.ask)(&run.cloud, &begun).await;
        assert!(run.cloud.at_rest(server).await, "{} ends", scenario.name);
        run.success = gist(&view::view(&run.cloud, server).await);
        assert_eq!(run.cloud.audit().await, Vec::<String>::new(), "after {} without a fault", scenario.name);
        run.dispose(server).await;
        run
    }

    async fn begin(&mut self) -> (Begun, View) {
        if let Some(ready) = self.ready.take() {
            return ready;
        }
        let begun = scenario::begin(&self.cloud, self.scenario.beginning).await;
        let view = view::view(&self.cloud, begun.server).await;
        (begun, view)
    }

    /// Deletes what a case left, so that the next finds room.
    async fn dispose(&self, server: Uuid) {
        self.cloud.send("DELETE", &format!("/compute/v2.1/servers/{server}"), None).await;
        self.cloud.at_rest(server).await;
    }

    async fn case(&mut self, case: Case) -> Result<(), String> {
        let (begun, before) = self.begin().await;
        view::guest_writes(&self.cloud, begun.server, &format!("{case}\n")).await;
        let disk = view::root_disk(&self.cloud, begun.server).await;
        let armed = Arc::new(Armed::new(case));
        self.cloud.tree().faults.arm(Some(armed.clone()));
        let server = (self.scenario.ask)(&self.cloud, &begun).await;
        if case.fault == Fault::Freeze {
            until(|| armed.happened()).await.map_err(|()| "the process never came to this point".to_owned())?;
            self.cloud.restart();
        }
        if !self.cloud.at_rest(server).await {
            return Err("the operation does not end".to_owned());
        }
        self.cloud.tree().faults.arm(None);
        if !armed.happened() {
            return Err("the saga never came to this point".to_owned());
        }
        if matches!(case.fault, Fault::CompleteLate | Fault::CompleteAfterEnd) {
            // Nothing tells when an effect that comes too late has been refused.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        self.pay_debts().await?;
        let saga = self.saga(server).await.ok_or("there is no saga")?;
        let done = saga.state == "done";
        match plan::demanded(&self.table, &case) {
            End::Done if !done => return Err(format!("ended {}, not done", saga.state)),
            End::Unwound if done => return Err("ended done, not unwound".to_owned()),
            End::Done | End::Unwound | End::Either => {}
        }
        let after = view::view(&self.cloud, server).await;
        let violations = self.cloud.audit().await;
        if !violations.is_empty() {
            return Err(format!("the audit finds (saga {}):\n{}\n{after:#?}", saga.state, violations.join("\n")));
        }
        if done {
            self.check_success(&after)?
        } else {
            self.check_failure(&case, server, &saga, &before, &after).await?
        }
        self.check_disk(disk, server, done).await?;
        let again = !done && self.scenario.beginning != Beginning::Nothing && difference(&before, &after).is_empty();
        if again {
            self.ready = Some((begun, before));
        } else {
            self.dispose(server).await;
        }
        Ok(())
    }

    fn check_success(&self, after: &View) -> Result<(), String> {
        let wrong = difference(&self.success, &gist(after));
        if wrong.is_empty() { Ok(()) } else { Err(format!("not where it was to go:\n{}\n{after:#?}", wrong.join("\n"))) }
    }

    async fn check_failure(&self, case: &Case, server: Uuid, saga: &SagaRecord, before: &View, after: &View) -> Result<(), String> {
        let (cell, instance) = view::record(&self.cloud, server).await.ok_or("the server is gone")?;
        let db = &self.cloud.world().cells[&cell].db;
        let actions = db.actions(server, ActionFilter::default()).await.map_err(|error| error.to_string())?;
        let latest = actions.first().ok_or("the server has no action")?;
        if latest.message.as_deref() != Some("Error") || latest.finish_time.is_none() {
            return Err(format!("the action does not say that it failed: {latest:?}"));
        }
        let fault = db.latest_fault(server).await.map_err(|error| error.to_string())?;
        if fault.is_none_or(|fault| fault.message.is_empty()) {
            return Err("no fault says why".to_owned());
        }
        let recorded = case.step != "record_migration" && case.refused != Some("record_migration");
        if saga.kind == "resize" && recorded {
            let migration = db.migration(saga.id).await.map_err(|error| error.to_string())?;
            if migration.status != MigrationStatus::Error {
                return Err(format!("the migration says {}", migration.status));
            }
        }
        if self.scenario.beginning == Beginning::Nothing || self.guest_may_be_lost(case) {
            let vm_state = instance.vm_state.to_string();
            return if vm_state == "error" { Ok(()) } else { Err(format!("a server whose guest is lost is {vm_state}")) };
        }
        let wrong = difference(before, after);
        if wrong.is_empty() { Ok(()) } else { Err(format!("not as before:\n{}", wrong.join("\n"))) }
    }

    /// The act that failed is one without a way back, on which the guest depends.
    fn guest_may_be_lost(&self, case: &Case) -> bool {
        let failed = case.refused.unwrap_or(case.step);
        let step = &self.table.steps[self.table.position(failed).expect("a step")];
        step.service_depends && step.undo.work().is_none()
    }

    /// What the guest wrote last is on its disk, unless the operation was to replace or remove it.
    async fn check_disk(&self, before: Option<Vec<u8>>, server: Uuid, done: bool) -> Result<(), String> {
        let Some(before) = before else { return Ok(()) };
        if matches!(self.scenario.saga, "delete" | "rebuild") || (done && self.scenario.saga == "revert") {
            return Ok(());
        }
        let after = view::root_disk(&self.cloud, server).await.ok_or("the disk is gone")?;
        if after.starts_with(&before) {
            return Ok(());
        }
        let same = after.iter().zip(&before).take_while(|(after, before)| after == before).count();
        Err(format!("the disk differs from byte {same} of {} on (it has {})", before.len(), after.len()))
    }

    async fn pay_debts(&self) -> Result<(), String> {
        let owed = || async { self.cloud.world().operations.debts(None).await.map_err(|error| error.to_string()) };
        let paying = async {
            while !owed().await?.is_empty() {
                self.cloud.tree().conductor.addr().do_send(PayDebts);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // The last payment may still hold its server.
            while !self.cloud.world().operations.held_servers().await.map_err(|error| error.to_string())?.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok::<(), String>(())
        };
        match tokio::time::timeout(PATIENCE, paying).await {
            Ok(paid) => paid,
            Err(_) => Err(format!("debts that cannot be paid: {:#?}", owed().await)),
        }
    }

    async fn saga(&self, server: Uuid) -> Option<SagaRecord> {
        let filter = SagaFilter { server: Some(server), state: None, marker: None, limit: 1 };
        self.cloud.world().operations.list(filter).await.ok()?.pop()
    }

    /// The newest saga's journal as lines.
    async fn journal(&self) -> String {
        let filter = SagaFilter { server: None, state: None, marker: None, limit: 1 };
        let operations = &self.cloud.world().operations;
        let Some(saga) = operations.list(filter).await.ok().and_then(|mut sagas| sagas.pop()) else { return String::new() };
        let entries = operations.entries(saga.id).await.unwrap_or_default();
        let line = |entry: &cellshift::db::api::operations::JournalEntry| {
            format!(
                "  {:>3} {} {} #{} {} {}",
                entry.seq,
                entry.step,
                entry.side,
                entry.attempt,
                entry.event,
                entry.error.as_deref().unwrap_or("")
            )
        };
        entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

async fn until(so: impl Fn() -> bool) -> Result<(), ()> {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.map_err(|_| ())
}

#[test]
fn every_saga_has_a_scenario() {
    for (saga, table) in tables::ALL {
        assert!(scenario::ALL.iter().any(|scenario| scenario.saga == *saga), "saga {saga} has no scenario in tests/it/faults/scenario.rs");
        assert!(plan::cases(table).iter().any(|case| case.moment == Moment::AfterJournal), "saga {saga} has no case");
    }
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() { every_fault(stringify!($name)); })*

        #[test]
        fn every_scenario_is_run() {
            let run = [$(stringify!($name)),*];
            for scenario in scenario::ALL {
                assert!(run.contains(&scenario.name), "scenario {} is not run", scenario.name);
            }
        }
    };
}

scenarios! {
    create delete delete_resized start stop soft_reboot hard_reboot rebuild same_cell_resize cross_cell_resize
    cross_cell_resize_stopped confirm confirm_same_cell revert revert_same_cell attach_volume detach_volume
}
