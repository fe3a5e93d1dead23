//! Cancels each saga at each step: its server is deleted while the step runs. The step finishes. Before its pivot the saga unwinds, past it
//! the saga ends, and then the server is deleted, once; also after a further fault.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::domain::saga_record::SagaFilter;
use cellshift::saga::step::{Class, Table};
use cellshift::saga::step_name::StepName;
use cellshift::saga::tables;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::plan::{self, FOR_EVER};
use super::scenario::{self, ApiCall, Begun};
use super::{CASES_OF_A_CLOUD, FURTHER, Run, in_part, part_of};
use crate::cloud::PATIENCE;
use crate::databases;

/// The fault after the wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Then {
    saga: &'static str,
    step: &'static str,
    side: &'static str,
    moment: Moment,
    fault: StepFault,
    times: u32,
}

/// A case: the act during which the server is deleted, and the fault that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    saga: &'static str,
    step: &'static str,
    then: Option<Then>,
}

struct Armed {
    case: Case,
    met: Semaphore,
    goes_on: Arc<Semaphore>,
    waited: AtomicU32,
    left: AtomicU32,
    over: Semaphore,
}

impl Armed {
    fn new(case: Case) -> Arc<Armed> {
        let left = AtomicU32::new(case.then.map_or(0, |then| then.times));
        let goes_on = Arc::new(Semaphore::new(0));
        Arc::new(Armed { case, met: Semaphore::new(0), goes_on, waited: AtomicU32::new(0), left, over: Semaphore::new(0) })
    }
}

impl FaultPlan for Armed {
    fn at(&self, point: &Point<'_>) -> StepFault {
        let here = (point.saga, point.step, point.side, point.moment) == (self.case.saga, self.case.step, "act", Moment::BeforeEffect);
        if here && self.waited.fetch_add(1, Ordering::SeqCst) == 0 {
            self.met.add_permits(1);
            return StepFault::Wait;
        }
        if self.waited.load(Ordering::SeqCst) == 0 {
            return StepFault::None;
        }
        let Some(then) = self.case.then else { return StepFault::None };
        let there = (point.saga, point.step, point.side, point.moment) == (then.saga, then.step, then.side, then.moment);
        let spent = || self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if there && spent().is_ok() { then.fault } else { StepFault::None }
    }

    fn over(&self, _: &Point<'_>) {
        self.over.add_permits(1);
    }

    fn released(&self, _: &Point<'_>) -> BoxFuture<'static, ()> {
        let goes_on = self.goes_on.clone();
        Box::pin(async move { goes_on.acquire().await.expect("it is never closed").forget() })
    }
}

/// Returns the saga's kind in fault points.
fn kind_of(saga: &str) -> &'static str {
    match saga {
        "soft_delete" => "delete",
        "soft_reboot" | "hard_reboot" => "reboot",
        "same_cell_resize" | "cross_cell_resize" => "resize",
        "live_migration" => "live_migrate",
        "rebuild_of_root_volume" => "rebuild",
        "create_image_of_volumes" => "create_image",
        "shelve_and_offload" => "shelve",
        "unshelve_in_place" | "cross_cell_unshelve" => "unshelve",
        other => tables::ALL.iter().map(|(name, _)| *name).find(|name| *name == other).expect("a saga"),
    }
}

fn cases(saga: &'static str, table: &Table) -> Vec<Case> {
    let kind = kind_of(saga);
    // Before its acceptance nobody can name a new server.
    let steps = || table.steps.iter().filter(move |step| saga != "create" || step.name.as_str() != "accept");
    let mut cases: Vec<Case> = steps().map(|step| Case { saga: kind, step: step.name.as_str(), then: None }).collect();
    if databases::on_postgres() {
        return cases;
    }
    let dies = |saga, step, side, moment| Then { saga, step, side, moment, fault: StepFault::KillActor, times: 1 };
    // The successor checks the step in doubt.
    cases.extend(steps().skip(usize::from(saga != "create")).map(|step| {
        let then = Some(dies(kind, step.name.as_str(), "act", Moment::AfterEffect));
        Case { saga: kind, step: step.name.as_str(), then }
    }));
    if !matches!(saga, "create" | "cross_cell_resize") {
        return cases;
    }
    for step in steps().filter(|step| step.name.as_str() != "accept") {
        let case = |then| Case { saga: kind, step: step.name.as_str(), then: Some(then) };
        let act = |fault| Then { fault, ..dies(kind, step.name.as_str(), "act", Moment::AfterEffect) };
        cases.push(case(act(StepFault::Freeze)));
        if step.undo.work().is_some() && step.class == Class::Reversible {
            let undo = |moment, fault, times| case(Then { fault, times, ..dies(kind, step.name.as_str(), "undo", moment) });
            cases.push(case(act(StepFault::Refuse)));
            cases.push(undo(Moment::BeforeEffect, StepFault::LoseReply, 1));
            cases.push(undo(Moment::BeforeEffect, StepFault::Refuse, FOR_EVER));
            cases.push(undo(Moment::AfterEffect, StepFault::Freeze, 1));
        }
    }
    // The fault meets the delete that follows.
    let middle = if saga == "create" { "make_volumes" } else { "prepare_at_target" };
    for step in tables::ALL.iter().find(|(name, _)| *name == "delete").expect("the delete").1.steps {
        for (moment, fault) in [(Moment::BeforeEffect, StepFault::Freeze), (Moment::AfterEffect, StepFault::KillActor)] {
            cases.push(Case { saga: kind, step: middle, then: Some(Then { fault, ..dies("delete", step.name.as_str(), "act", moment) }) });
        }
    }
    let refused = Then { fault: StepFault::Refuse, ..dies("delete", "accept", "act", Moment::BeforeEffect) };
    cases.push(Case { saga: kind, step: middle, then: Some(refused) });
    cases
}

/// Returns the required end of the cancelled operation; none if it depends on the fault.
fn demanded(table: &Table, case: &Case) -> Option<&'static str> {
    let position = table.position(StepName::parse(case.step).expect("a step")).expect("a step");
    let has_begun = match case.then {
        None => position + 1,
        Some(Then { fault: StepFault::KillActor, side: "act", saga, .. }) if saga == case.saga => position,
        Some(_) => return None,
    };
    let Some(next) = table.steps.get(has_begun) else { return Some("done") };
    let in_doubt = has_begun == position;
    let open = next.class == Class::Reversible || (next.class == Class::Pivot && !in_doubt);
    let one_way = table.steps[..=position].iter().any(|step| step.no_way_back);
    Some(if open && !one_way { "unwound" } else { "done" })
}

fn cancelled(saga: &'static str) {
    let scenario = scenario::ALL.iter().find(|scenario| scenario.saga == saga).expect("a scenario");
    let table = tables::ALL.iter().find(|(name, _)| *name == saga).expect("a registered saga").1;
    let words = std::env::var("CELLSHIFT_CANCELLED").unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let began = tokio::time::Instant::now();
        let mut run = Run::start(scenario, table).await;
        run.ready = None;
        let (further, plain): (Vec<Case>, Vec<Case>) = cases(saga, &table).into_iter().partition(|case| case.then.is_some());
        let cases = plain.into_iter().chain(part_of(further, FURTHER)).collect();
        let cases: Vec<Case> = in_part(cases).into_iter().filter(|case| format!("{case:?}").contains(&words)).collect();
        let mut failures = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            if index % CASES_OF_A_CLOUD == CASES_OF_A_CLOUD - 1 {
                run = Run::start(scenario, table).await;
                run.ready = None;
            }
            if let Err(why) = run.cancelled(*case).await {
                let failure = format!("== {saga} cancelled: {case:?}\n{why}\n{}", run.journal().await);
                let _ = writeln!(std::io::stderr(), "{failure}");
                failures.push(format!("{case:?}"));
                run = Run::start(scenario, table).await;
                run.ready = None;
            }
        }
        let (all, held, time) = (cases.len(), cases.len() - failures.len(), began.elapsed().as_secs());
        let _ = writeln!(std::io::stderr(), "failure matrix: {saga} cancelled: {all} cases run, {held} held, in {time} s");
        assert!(failures.is_empty(), "{} of {all} cases failed\n{}", failures.len(), failures.join("\n"));
    });
}

impl Run {
    async fn cancelled(&mut self, case: Case) -> Result<(), String> {
        let begun = scenario::begin(&self.cloud, self.scenario.beginning).await;
        let armed = Armed::new(case);
        self.cloud.faults().arm(Some(armed.clone()));
        let server = self.deleted_meanwhile(&begun, &armed).await?;
        if let Some(Then { fault: StepFault::Freeze, .. }) = case.then {
            let stopped = tokio::time::timeout(PATIENCE, armed.over.acquire()).await;
            stopped.map_err(|_| "the process never came to this point")?.expect("it is never closed").forget();
            self.cloud.restart_under_faults();
            let (status, body) = self.cloud.send("DELETE", &path_of(server), None).await;
            if !matches!(status, 204 | 404) {
                return Err(format!("in the next life a delete is answered {status}: {body}"));
            }
        }
        self.until_gone(server).await?;
        self.cloud.faults().arm(None);
        self.pay_debts().await?;
        if !self.cloud.at_rest(server).await {
            return Err("it does not come to rest".to_owned());
        }
        self.check_end(&case, server).await
    }

    /// Requests the operation, and the delete while the step runs; both are accepted.
    async fn deleted_meanwhile(&self, begun: &Begun, armed: &Armed) -> Result<Uuid, String> {
        let ApiCall { method, path, body } = (self.scenario.ask)(&self.cloud, begun);
        let deleting = async {
            let met = tokio::time::timeout(PATIENCE, armed.met.acquire()).await;
            met.map_err(|_| "the saga never came to this step")?.expect("it is never closed").forget();
            let server = self.server(begun).await.ok_or("no saga has begun")?;
            let path = path_of(server);
            let (one, two) = futures::join!(self.cloud.send("DELETE", &path, None), self.cloud.send("DELETE", &path, None));
            let (_, shown) = self.cloud.send("GET", &path, None).await;
            let forced = self.cloud.send("POST", &format!("{path}/action"), Some(serde_json::json!({"forceDelete": null}))).await;
            armed.goes_on.add_permits(1);
            if (one.0, two.0, forced.0) != (204, 204, 202) {
                return Err(format!("the deletes are answered {one:?}, {two:?} and {forced:?}"));
            }
            let task = &shown["server"]["OS-EXT-STS:task_state"];
            if *task != "deleting" { Err(format!("it is shown as {shown}")) } else { Ok(server) }
        };
        let (answer, server) = futures::join!(self.cloud.try_send(method, &path, body), deleting);
        match answer {
            Ok((status, body)) if status >= 300 && !plan::answers_at_its_end(&self.table) => {
                Err(format!("the operation is answered {status}: {body}"))
            }
            _ => server,
        }
    }

    async fn until_gone(&self, server: Uuid) -> Result<(), String> {
        let gone = async {
            let mut next = tokio::time::interval(std::time::Duration::from_millis(5));
            loop {
                next.tick().await;
                self.cloud.at_rest(server).await;
                let mapping = self.cloud.world().api.instance_mapping(server).await.map_err(|error| error.to_string())?;
                if mapping.delete_request.is_none() && mapping.queued_for_delete == Some(true) {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| Err("it is never gone".to_owned()))
    }

    async fn check_end(&self, case: &Case, server: Uuid) -> Result<(), String> {
        let (status, shown) = self.cloud.send("GET", &path_of(server), None).await;
        if status != 404 {
            return Err(format!("it is still there: {shown}"));
        }
        let violations = self.cloud.audit().await;
        if !violations.is_empty() {
            return Err(format!("the audit finds:\n{}", violations.join("\n")));
        }
        let filter = SagaFilter { server: Some(server), limit: 100, ..SagaFilter::default() };
        let sagas = self.cloud.world().operations.list(filter).await.map_err(|error| error.to_string())?;
        let deletes = sagas.iter().filter(|saga| saga.kind == "delete" && saga.state.as_str() == "done").count();
        // The delete for good follows a soft delete.
        if deletes != 1 + usize::from(matches!(self.scenario.saga, "soft_delete" | "restore")) {
            return Err(format!("{deletes} deletes were carried out"));
        }
        let other = sagas.iter().find(|saga| saga.kind == case.saga).ok_or("the operation has no record")?;
        let end = demanded(&self.table, case);
        if case.saga == "delete" || end.is_some_and(|end| end == other.state.as_str()) || end.is_none() {
            return self.check_actions(server, other.state.as_str()).await;
        }
        Err(format!("the operation ended {}, not {end:?}: {:?}", other.state, other.error))
    }

    /// Checks that the history has both actions, and that the cancelled one failed.
    async fn check_actions(&self, server: Uuid, ended: &str) -> Result<(), String> {
        let actions = self.cloud.look(&format!("{}/os-instance-actions", path_of(server))).await;
        let actions = actions["instanceActions"].as_array().cloned().ok_or("it has no history")?;
        let latest = |is_match: &dyn Fn(&Value) -> bool| actions.iter().find(|action| is_match(action)).cloned();
        let delete = latest(&|action| action["action"] == "delete").ok_or("its delete is not in its history")?;
        if !delete["message"].is_null() {
            return Err(format!("the delete says {delete}"));
        }
        let other = latest(&|action| action["action"] != "delete");
        match other {
            Some(other) if (ended == "unwound") != (other["message"] == "Error") && self.scenario.saga != "delete" => {
                Err(format!("the operation ended {ended}, and its action says {other}"))
            }
            None if self.scenario.saga != "delete" => Err(format!("the operation is not in its history: {actions:?}")),
            _ => Ok(()),
        }
    }
}

fn path_of(server: Uuid) -> String {
    format!("/compute/v2.1/servers/{server}")
}

macro_rules! sagas {
    ($($name:ident)*) => {
        $(#[test] fn $name() { cancelled(stringify!($name)); })*

        #[test]
        fn every_saga_is_cancelled() {
            let run = [$(stringify!($name)),*];
            for (saga, _) in tables::ALL {
                assert!(run.contains(saga), "saga {saga} is not cancelled");
            }
        }
    };
}

sagas! {
    create delete start stop soft_reboot hard_reboot pause unpause suspend resume rebuild rebuild_of_root_volume same_cell_resize cross_cell_resize live_migration confirm
    revert evacuate attach_volume detach_volume attach_interface detach_interface add_fixed_ip remove_fixed_ip create_image create_image_of_volumes shelve shelve_and_offload shelve_offload unshelve_in_place unshelve
    cross_cell_unshelve heal rescue unrescue crash_dump change_password soft_delete restore
}
