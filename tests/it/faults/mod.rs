//! The failure harness (docs/FAULT-MODEL.md): every registered saga × step × act and undo × fault. Each case ends as the rules demand,
//! leaves the server in its prior state or at its target, and ends with a clean audit.
//!
//! A plain run on SQLite takes every single fault of each saga in its first scenario, and refusals and lost replies in its others; on
//! PostgreSQL it takes refusals and lost replies. `CELLSHIFT_FAULTS=words` runs the cases whose name (`step/side/moment/fault/times`)
//! contains the words, `CELLSHIFT_FAULTS=all` every single fault in every scenario, and `CELLSHIFT_FAULTS=pairs` the pairs: a second fault
//! while the first is undone, or after the saga has recovered from it (`pairs words` selects pairs). `CELLSHIFT_FAULTS_PART=2/4` takes the
//! second of four parts, and `CELLSHIFT_FAULTS_FURTHER=2/4` that of the cancelled operations that meet a further fault, on SQLite of the cases
//! of a saga's other scenarios, and on PostgreSQL of the ways of late debts and of servers with guaranteed bandwidth, and of the routes whose
//! answers are asked for at each microversion.
//! `CELLSHIFT_FAULTS_TABLE=DIR` writes each scenario's numbers of cases and of held cases there as a table.

mod cancelled;
mod pairs;
mod plan;
pub mod scenario;
mod table;
pub mod view;

use std::io::Write;
use std::sync::Arc;

use uuid::Uuid;

use cellshift::chaos::point::{Moment, StepFault};
use cellshift::domain::action::ActionFilter;
use cellshift::domain::migration::MigrationStatus;
use cellshift::domain::saga_record::{JournalEntry, SagaFilter, SagaRecord};
use cellshift::saga::step::Table;
use cellshift::saga::step_name::StepName;
use cellshift::saga::tables;

use crate::cloud::{Cloud, PATIENCE, difference};
use crate::databases;
use plan::{Armed, Case, End};
use scenario::{ApiCall, Beginning, Begun, Scenario};
use view::{View, gist};

/// The environment variable that selects a part of the cases: `1/4` is every fourth, from the first.
const PART: &str = "CELLSHIFT_FAULTS_PART";
/// The environment variable that selects a part of the cancelled operations that meet a further fault, and on SQLite of the cases of a saga's
/// scenarios after the first: `1/4` is every fourth, from the first.
const FURTHER: &str = "CELLSHIFT_FAULTS_FURTHER";
/// The word that selects pairs; further words select among them.
const PAIRS: &str = "pairs";
/// The number of cases after which a fresh cloud costs less than the audit of the earlier cases' records.
const CASES_OF_A_CLOUD: usize = 30;

/// A scenario's run through its cases.
struct Run {
    scenario: &'static Scenario,
    table: Table,
    cloud: Cloud,
    /// A server in the beginning state, with its view, for the next case.
    ready: Option<(Begun, View)>,
    /// The view after the operation without faults.
    success: View,
}

fn every_fault(name: &str) {
    let scenario = scenario::ALL.iter().find(|scenario| scenario.name == name).expect("a scenario");
    let table = tables::ALL.iter().find(|(saga, _)| *saga == scenario.saga).expect("a registered saga").1;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (cases, failures) = runtime.block_on(async {
        let began = tokio::time::Instant::now();
        let mut run = Run::start(scenario, table).await;
        let cases = cases_of_run(scenario, &table);
        let (mut failures, mut outcomes) = (Vec::new(), Vec::new());
        for (index, case) in cases.iter().enumerate() {
            if index % CASES_OF_A_CLOUD == CASES_OF_A_CLOUD - 1 {
                run = Run::start(scenario, table).await;
            }
            let held = run.case(*case).await;
            outcomes.push((*case, held.is_ok()));
            if let Err(why) = held {
                let failure = format!("== {name} {case}\n{why}\n{}", run.journal().await);
                // Written past the harness's capture, because the matrix takes long.
                let _ = writeln!(std::io::stderr(), "{failure}");
                failures.push(format!("{case}"));
                run = Run::start(scenario, table).await;
            }
        }
        let (all, held, time) = (cases.len(), cases.len() - failures.len(), began.elapsed().as_secs());
        table::write(name, &outcomes);
        // Written even if all is well.
        let _ = writeln!(std::io::stderr(), "failure matrix: {name}: {all} cases run, {held} held, in {time} s");
        (all, failures)
    });
    assert!(failures.is_empty(), "{} of {cases} cases failed\n{}", failures.len(), failures.join("\n"));
}

/// Returns the cases of this run.
fn cases_of_run(scenario: &Scenario, table: &Table) -> Vec<Case> {
    let words = std::env::var("CELLSHIFT_FAULTS").ok();
    let is_first = scenario::ALL.iter().find(|other| other.saga == scenario.saga).is_some_and(|first| first.name == scenario.name);
    let cases: Vec<Case> = match words.as_deref() {
        Some(words) if words.starts_with(PAIRS) => {
            let words = words.trim_start_matches(PAIRS).trim();
            pairs::pairs(table).into_iter().filter(|case| case.to_string().contains(words)).collect()
        }
        Some("all") => plan::cases(table),
        Some(words) => plan::cases(table).into_iter().filter(|case| case.to_string().contains(words)).collect(),
        None if databases::on_postgres() => first_rank(table),
        None if is_first => plan::cases(table),
        None => part_of(first_rank(table), FURTHER),
    };
    in_part(cases)
}

/// Returns every nth case if this run is one of several parts, so that all parts take equally long.
fn in_part<C>(cases: Vec<C>) -> Vec<C> {
    part_of(cases, PART)
}

/// Returns the part of the cases that the environment variable `name` selects; all if it is not set.
fn part_of<C>(cases: Vec<C>, name: &str) -> Vec<C> {
    let Ok(text) = std::env::var(name) else { return cases };
    let numbers = text.split_once('/').and_then(|(part, of)| Some((part.parse::<usize>().ok()?, of.parse::<usize>().ok()?)));
    let Some((part, of)) = numbers.filter(|(part, of)| (1..=*of).contains(part)) else { panic!("{name} is k/n, such as 1/4, not {text}") };
    cases.into_iter().skip(part - 1).step_by(of).collect()
}

/// Returns the cases of a long run that depends little on the kind of database: all on SQLite, and a part on PostgreSQL.
pub fn a_part_on_postgres<C>(cases: Vec<C>) -> Vec<C> {
    if databases::on_postgres() { part_of(cases, FURTHER) } else { cases }
}

/// Returns the cases that a plain run takes of each scenario on each kind of database.
fn first_rank(table: &Table) -> Vec<Case> {
    let is_of_it = |case: &Case| case.times == 1 && matches!(case.fault, StepFault::Refuse | StepFault::LoseReply);
    plan::cases(table).into_iter().filter(is_of_it).collect()
}

impl Run {
    /// Starts a fresh cloud, and runs the operation once without a fault to see its result.
    async fn start(scenario: &'static Scenario, table: Table) -> Run {
        let mut run = Run {
            scenario,
            table,
            cloud: Cloud::start_light(|config| scenario.configure(config)).await,
            ready: None,
            success: View::new(),
        };
        let (begun, _) = run.begin().await;
        let server = run.perform((scenario.ask)(&run.cloud, &begun), &begun).await;
        run.success = gist(&view::view(run.cloud.tree(), server).await);
        assert_eq!(run.cloud.audit().await, Vec::<String>::new(), "after {} without a fault", scenario.name);
        run.go_on(begun, server).await;
        run
    }

    /// Sends a request and waits for its operation's end. Returns the server.
    async fn perform(&self, ApiCall { method, path, body }: ApiCall, begun: &Begun) -> Uuid {
        let (status, body) = self.cloud.send(method, &path, body).await;
        assert!(status < 300, "{status}: {body}");
        let server = self.server(begun).await.expect("a saga has begun");
        assert!(self.cloud.at_rest(server).await, "{method} {path} ends");
        server
    }

    /// Brings the server back to the beginning state, or deletes it to make room for the next case.
    async fn go_on(&mut self, begun: Begun, server: Uuid) {
        if let Some(back) = self.scenario.back {
            self.perform(back(&self.cloud, &begun), &begun).await;
            self.ready = Some((begun, view::view(self.cloud.tree(), server).await));
        } else {
            self.dispose(server).await;
        }
    }

    async fn begin(&mut self) -> (Begun, View) {
        if let Some(ready) = self.ready.take() {
            return ready;
        }
        let begun = scenario::begin(&self.cloud, self.scenario.beginning).await;
        let view = view::view(self.cloud.tree(), begun.server).await;
        (begun, view)
    }

    /// Deletes the server that a case left.
    async fn dispose(&self, server: Uuid) {
        self.cloud.send("POST", &format!("/compute/v2.1/servers/{server}/action"), Some(serde_json::json!({"forceDelete": null}))).await;
        self.cloud.at_rest(server).await;
    }

    /// Returns the operation's server. For a create, its saga names the server.
    async fn server(&self, begun: &Begun) -> Option<Uuid> {
        if begun.server.is_nil() { self.newest_saga().await.map(|saga| saga.server) } else { Some(begun.server) }
    }

    async fn case(&mut self, case: Case) -> Result<(), String> {
        let (begun, before) = self.begin().await;
        let ailing = self.ailing().await;
        view::guest_writes(self.cloud.tree(), begun.server, &format!("{case}\n")).await;
        let disk = view::root_disk(self.cloud.tree(), begun.server).await;
        let (server, saga) = self.meet(&case, &begun).await?;
        let done = saga.state.as_str() == "done";
        let demanded = plan::demanded(&self.table, &case);
        match demanded {
            End::Done if !done => return Err(format!("ended {}, not done", saga.state)),
            End::Unwound | End::NeverBegun if done => return Err("ended done, not unwound".to_owned()),
            _ => {}
        }
        let after = view::view(self.cloud.tree(), server).await;
        let mut violations = self.cloud.audit().await;
        violations.retain(|violation| done || !ailing.contains(violation));
        if !violations.is_empty() {
            return Err(format!("the audit finds (saga {}):\n{}\n{after:#?}", saga.state, violations.join("\n")));
        }
        if done {
            self.check_success(&after)?;
        } else if demanded == End::NeverBegun || case.was_never_accepted(&self.table) {
            as_before(&before, &after)?;
        } else {
            self.check_failure(&case, server, &saga, &before, &after).await?;
        }
        self.check_disk(disk, server, done).await?;
        if self.scenario.beginning != Beginning::Nothing && difference(&before, &after).is_empty() {
            self.ready = Some((begun, before));
        } else if done {
            self.go_on(begun, server).await;
        } else {
            self.dispose(server).await;
        }
        Ok(())
    }

    /// Returns what the audit finds before an operation that is to mend it, and after one that did not.
    async fn ailing(&self) -> Vec<String> {
        if self.scenario.beginning == Beginning::FromBefore { self.cloud.audit().await } else { Vec::new() }
    }

    /// Requests the operation, lets it meet the fault, and waits until everything is at rest: the operation, late effects, debts, and the
    /// guests of restarted hosts.
    async fn meet(&mut self, case: &Case, begun: &Begun) -> Result<(Uuid, SagaRecord), String> {
        let armed = Arc::new(Armed::new(*case));
        self.cloud.faults().arm(Some(armed.clone()));
        self.ask(case, begun, &armed).await?;
        let server = self.server(begun).await.ok_or("no saga has begun")?;
        if !self.cloud.at_rest(server).await {
            return Err("the operation does not end".to_owned());
        }
        if !armed.happened() {
            return Err("the saga never came to this point".to_owned());
        }
        for late in case.comes_late() {
            tokio::time::timeout(PATIENCE, armed.over(late)).await.map_err(|_| "the late effect does not end")?;
        }
        self.cloud.faults().arm(None);
        self.pay_debts().await?;
        if !case.stops().is_empty() {
            self.cloud.guests_return().await.map_err(|error| error.to_string())?;
        }
        let saga = self.newest_saga().await.filter(|saga| saga.server == server).ok_or("there is no saga")?;
        Ok((server, saga))
    }

    /// Sends the request and checks its answer. A process that must stop is stopped meanwhile and started again.
    async fn ask(&mut self, case: &Case, begun: &Begun, armed: &Armed) -> Result<(), String> {
        let ApiCall { method, path, body } = (self.scenario.ask)(&self.cloud, begun);
        let asking = self.cloud.try_send(method, &path, body);
        let stops = case.stops();
        let Some((first, others)) = stops.split_first() else {
            let (status, body) = asking.await.map_err(|error| format!("no answer: {error}"))?;
            return check_answer(&self.table, case, status, &body.to_string());
        };
        let stopping = async {
            tokio::select! {
                biased;
                () = armed.over(*first) => Ok(()),
                Ok((status, body)) = asking => {
                    check_answer(&self.table, case, status, &body.to_string())?;
                    armed.over(*first).await;
                    Ok(())
                }
            }
        };
        let never = |_| "the process never came to this point".to_owned();
        tokio::time::timeout(PATIENCE, stopping).await.map_err(never).flatten()?;
        self.cloud.restart_under_faults();
        for next in others {
            tokio::time::timeout(PATIENCE, armed.over(*next)).await.map_err(never)?;
            self.cloud.restart_under_faults();
        }
        Ok(())
    }

    fn check_success(&self, after: &View) -> Result<(), String> {
        let wrong = difference(&self.success, &gist(after));
        if wrong.is_empty() { Ok(()) } else { Err(format!("not where it was to go:\n{}\n{after:#?}", wrong.join("\n"))) }
    }

    async fn check_failure(&self, case: &Case, server: Uuid, saga: &SagaRecord, before: &View, after: &View) -> Result<(), String> {
        let (cell, instance) = view::record(self.cloud.tree(), server).await.ok_or("the server is gone")?;
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
        if saga.kind == "resize" {
            let failing =
                self.table.position(StepName::parse(case.failing()).expect("a step")) > self.table.position(StepName::RecordMigration);
            match db.migration(saga.id).await {
                Ok(migration) if migration.status != MigrationStatus::Error => {
                    return Err(format!("the migration says {}", migration.status));
                }
                Err(error) if failing => return Err(error.to_string()),
                _ => {}
            }
        }
        if saga.kind == "live_migrate"
            && let Ok(migration) = db.migration(saga.id).await
            && !matches!(migration.status, MigrationStatus::Error | MigrationStatus::Failed)
        {
            return Err(format!("the live migration says {}", migration.status));
        }
        if self.scenario.beginning == Beginning::Nothing || self.guest_may_be_lost(case) {
            let vm_state = instance.vm_state.to_string();
            return if vm_state == "error" { Ok(()) } else { Err(format!("a server whose guest is lost is {vm_state}")) };
        }
        as_before(before, after)
    }

    /// True if the failed act has no way back and the guest depends on it.
    fn guest_may_be_lost(&self, case: &Case) -> bool {
        let step = &self.table.steps[self.table.position(StepName::parse(case.failing()).expect("a step")).expect("a step")];
        step.service_depends && step.undo.work().is_none()
    }

    /// Checks that the guest's last write is on its disk, unless the operation was to replace or remove the disk.
    async fn check_disk(&self, before: Option<Vec<u8>>, server: Uuid, done: bool) -> Result<(), String> {
        let Some(before) = before else { return Ok(()) };
        if matches!(self.scenario.saga, "delete" | "rebuild" | "rebuild_of_root_volume")
            || (done && matches!(self.scenario.saga, "revert" | "evacuate"))
        {
            return Ok(());
        }
        let after = view::root_disk(self.cloud.tree(), server).await.ok_or("the disk is gone")?;
        if after.starts_with(&before) {
            return Ok(());
        }
        let same = after.iter().zip(&before).take_while(|(after, before)| after == before).count();
        Err(format!("the disk differs from byte {same} of {} on (it has {})", before.len(), after.len()))
    }

    async fn pay_debts(&self) -> Result<(), String> {
        let operations = &self.cloud.world().operations;
        let owed = || async { operations.debts(None).await.map_err(|error| error.to_string()) };
        let paying = async {
            loop {
                self.cloud.tree().conductor.pay_debts().await;
                if owed().await?.is_empty() {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(PATIENCE, paying).await {
            Ok(paid) => paid,
            Err(_) => Err(format!("debts that cannot be paid: {:#?}", owed().await)),
        }
    }

    async fn newest_saga(&self) -> Option<SagaRecord> {
        let filter = SagaFilter { limit: 1, ..SagaFilter::default() };
        self.cloud.world().operations.list(filter).await.ok()?.pop()
    }

    /// Returns the newest saga's journal as lines.
    async fn journal(&self) -> String {
        let Some(saga) = self.newest_saga().await else { return String::new() };
        let entries = self.cloud.world().operations.entries(saga.id).await.unwrap_or_default();
        let line = |entry: &JournalEntry| {
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

fn as_before(before: &View, after: &View) -> Result<(), String> {
    let wrong = difference(before, after);
    if wrong.is_empty() { Ok(()) } else { Err(format!("not as before:\n{}", wrong.join("\n"))) }
}

fn check_answer(table: &Table, case: &Case, status: u16, body: &str) -> Result<(), String> {
    match plan::answer(table, case) {
        Some(allowed) if !allowed.contains(&status) => Err(format!("answered {status}, not {allowed:?}: {body}")),
        _ => Ok(()),
    }
}

#[test]
fn every_saga_has_a_scenario() {
    for (saga, table) in tables::ALL {
        assert!(scenario::ALL.iter().any(|scenario| scenario.saga == *saga), "saga {saga} has no scenario in tests/it/faults/scenario.rs");
        let cases = plan::cases(table);
        for step in table.steps {
            let of_act =
                cases.iter().any(|case| case.step == step.name.as_str() && case.undo.is_none() && case.moment == Moment::AfterJournal);
            let of_undo = cases.iter().any(|case| case.step == step.name.as_str() && case.undo.is_some());
            assert!(of_act, "no case meets the act of {} in saga {saga}", step.name.as_str());
            assert_eq!(of_undo, step.undo.work().is_some(), "the undo of {} in saga {saga}", step.name.as_str());
        }
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
    create delete delete_resized soft_delete soft_delete_resized restore start stop soft_reboot hard_reboot pause unpause suspend resume rescue rescue_stopped unrescue crash_dump change_password rebuild rebuild_of_root_volume same_cell_resize crash_dump_resized
    cross_cell_resize cross_cell_resize_stopped live_migration live_migration_paused live_migration_on_root_volume confirm confirm_same_cell revert revert_same_cell evacuate attach_volume detach_volume attach_to_offloaded detach_from_offloaded
    attach_interface attach_made_interface detach_interface add_fixed_ip remove_fixed_ip create_image create_image_of_volumes
    shelve shelve_and_offload shelve_on_root_volume shelve_offload unshelve_in_place unshelve unshelve_with_volume unshelve_on_root_volume cross_cell_unshelve cross_cell_unshelve_on_root_volume delete_shelved heal
}
