//! An experiment loaded into a running service: its plan at steps, its record, and its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::ExperimentView;
use crate::actors::root::Tree;
use crate::chaos::audit;
use crate::chaos::experiment::Witness;
use crate::chaos::experiment::draw::drawn;
use crate::chaos::experiment::fault::{PlannedFault, What, When};
use crate::chaos::experiment::plan::{Call, Plan};
use crate::chaos::experiment::record::{Injected, Record};
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::text::word;
use crate::chaos::experiment::verdict::{Findings, MigrationEnd, Mode, Verdict};
use crate::chaos::point::FaultPoints;
use crate::db::DbError;
use crate::db::api::operations::Operations;
use crate::domain::saga_record::SagaRecord;

/// Logs faults. Unlike in a simulation, nobody observes each step of a service.
struct Log {
    began: Instant,
}

impl Witness for Log {
    fn elapsed_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    fn note(&self, line: String) {
        log::debug!("{line}");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time for which nothing must be at work before a cloud counts as quiet: longer than the period of the hosts' reports, by which records
/// are updated.
const CALM: Duration = Duration::from_secs(12);

enum State {
    Running,
    /// Its faults have been over since this moment.
    Ending(Instant),
    Over(Box<Verdict>),
}

pub(super) struct Loaded {
    scenario: Scenario,
    left_out: Vec<String>,
    planned: Vec<PlannedFault>,
    pub(super) record: Record,
    tree: Tree,
    steps: FaultPoints,
    plan: Arc<Plan>,
    witness: Arc<Log>,
    began_at: DateTime<Utc>,
    aborted: Option<String>,
    /// The number of the record's faults that have begun.
    pub(super) handled: usize,
    /// True if the experiment goes on until it is stopped, and is over when the whole cloud is quiet.
    until_stopped: bool,
    /// The moment since which nothing has been at work.
    calm_since: Option<Instant>,
    state: State,
    /// A separate handle, so that no outage hides the records.
    operations: Operations,
}

impl Loaded {
    /// Arms the faults at steps. The caller begins the timed faults ([`Loaded::at_times`]).
    pub(super) fn begin(
        scenario: Scenario,
        left_out: Vec<String>,
        tree: Tree,
        steps: FaultPoints,
        calls: mpsc::UnboundedSender<Call>,
        overs: mpsc::UnboundedSender<Injected>,
    ) -> Loaded {
        // Drops kills and clock jumps that the seed draws: a service's process is killed only if its file says so.
        let meant = |fault: &PlannedFault| scenario.faults.is_some() || !matches!(fault.what, What::Restart | What::Clock { .. });
        let planned: Vec<PlannedFault> = drawn(scenario.seed, &scenario).into_iter().filter(meant).collect();
        let (record, witness) = (Record::under(tree.world.env.uuid()), Arc::new(Log { began: Instant::now() }));
        let plan = Arc::new(Plan::new(witness.clone(), record.clone(), &planned, calls).of_a_service(overs));
        steps.arm(Some(plan.clone()));
        let operations = Operations::new(tree.world.api.db().named("chaos"));
        let began_at = tree.world.env.now();
        Loaded {
            scenario,
            left_out,
            planned,
            record,
            tree,
            steps,
            plan,
            witness,
            began_at,
            aborted: None,
            handled: 0,
            until_stopped: false,
            calm_since: None,
            state: State::Running,
            operations,
        }
    }

    /// Lets the experiment go on until it is stopped.
    pub(super) fn lasting(self, until_stopped: bool) -> Loaded {
        Loaded { until_stopped, ..self }
    }

    pub(super) fn title(&self) -> &str {
        &self.scenario.title
    }

    pub(super) fn faults(&self) -> usize {
        self.planned.len()
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        self.witness.elapsed_ms()
    }

    /// Returns the timed faults: their numbers, kinds, and times in milliseconds.
    pub(super) fn at_times(&self) -> Vec<(usize, What, u64)> {
        let mut all = Vec::new();
        for (number, fault) in self.planned.iter().enumerate() {
            if let When::At(ms) = fault.when {
                all.extend((0..u64::from(fault.times)).map(|nth| (number, fault.what.clone(), ms + nth * fault.every_ms)));
            }
        }
        all
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// True if the experiment gave up or was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.aborted.is_some()
    }

    /// Lets no further fault happen, because somebody says so. Only an experiment that would have ended by itself has given up then.
    pub(super) fn obey_stop(&mut self) {
        match self.until_stopped {
            true => self.end(),
            false => self.stop("its operator stopped it"),
        }
    }

    /// Lets no further fault happen.
    pub(super) fn stop(&mut self, why: &str) {
        self.aborted = Some(why.to_owned());
        self.end();
    }

    fn end(&mut self) {
        self.plan.heal();
        self.steps.arm(None);
        self.state = State::Ending(Instant::now());
    }

    /// True if the experiment's faults must end now: all have happened and none lasts, or the time is over.
    pub(super) fn wants_to_end(&mut self, lasting: bool) -> bool {
        let seconds = self.elapsed_ms() / 1000;
        if self.scenario.abort.after_seconds.is_some_and(|most| seconds >= most) {
            self.stop(&format!("{seconds} s have passed"));
            return true;
        }
        let happened = self.record.all();
        let all =
            |(number, fault): (usize, &PlannedFault)| happened.iter().filter(|one| one.fault == number).count() >= fault.times as usize;
        if self.until_stopped || lasting || self.handled < happened.len() || !self.planned.iter().enumerate().all(all) {
            return false;
        }
        self.end();
        true
    }

    /// Makes the verdict once the affected sagas have ended, or the time is over.
    pub(super) async fn conclude(&mut self) {
        let State::Ending(since) = self.state else { return };
        let in_time = since.elapsed() < Duration::from_secs(self.scenario.expect.quiet_within_seconds);
        if self.until_stopped && in_time && !self.is_calm().await {
            return;
        }
        match self.findings().await {
            Ok((_, true)) if in_time => {}
            Ok((findings, _)) => {
                let verdict = Verdict::of(&self.scenario, &self.planned, findings);
                log::warn!("experiment {:?} is over: {}", self.scenario.title, word(verdict.conclusion));
                self.state = State::Over(Box::new(verdict));
            }
            Err(error) if in_time => log::debug!("an experiment's findings cannot be read yet: {error}"),
            Err(error) => {
                let unreachable = vec![error.to_string()];
                let verdict = Verdict::of(&self.scenario, &self.planned, self.summary(Vec::new(), Vec::new(), unreachable));
                self.state = State::Over(Box::new(verdict));
            }
        }
    }

    /// True once nothing has been at work for some time.
    async fn is_calm(&mut self) -> bool {
        match self.is_quiet().await {
            Ok(true) => self.calm_since.get_or_insert_with(Instant::now).elapsed() >= CALM,
            Ok(false) | Err(_) => {
                self.calm_since = None;
                false
            }
        }
    }

    /// True if nothing in the cloud is at work or owed, and all hosts take requests.
    async fn is_quiet(&self) -> Result<bool, DbError> {
        let (held, debts) = (self.operations.held_servers().await?, self.operations.debts(None).await?);
        let queued = self.tree.world.api.count_queued_deletes().await?;
        let mut hosts = self.tree.cells.iter().flat_map(|cell| cell.hosts.hosts().into_iter().map(move |(host, _)| (cell, host)));
        let all_are_up = hosts.all(|(cell, host)| cell.hosts.standing(&host).is_up());
        Ok(held.is_empty() && debts.is_empty() && queued == 0 && all_are_up)
    }

    /// Returns that the cloud is not quiet, if the experiment waits for that.
    async fn unquiet(&self) -> Result<Option<audit::Violation>, DbError> {
        if !self.until_stopped || self.is_quiet().await? {
            return Ok(None);
        }
        let message = format!("not quiet {} s after the last fault", self.scenario.expect.quiet_within_seconds);
        Ok(Some(audit::Violation { invariant: "I11".to_owned(), subject: "the cloud".to_owned(), message }))
    }

    /// Returns the findings, and whether an affected saga is still in flight. The audit runs only if none is.
    async fn findings(&self) -> Result<(Findings, bool), DbError> {
        let records = self.operations.audit_records().await?;
        let in_flight: BTreeSet<Uuid> = records.holders.values().copied().collect();
        let injected = self.record.all();
        let since = |at: DateTime<Utc>| u64::try_from((at - self.began_at).num_milliseconds()).unwrap_or_default();
        let now = self.tree.world.env.now();
        let mut migrations = Vec::new();
        for saga in records.sagas.iter().filter(|saga| saga.updated_at >= self.began_at || in_flight.contains(&saga.id)) {
            let journal = records.journals.get(&saga.id).map_or(&[][..], Vec::as_slice);
            // A saga in flight has not ended before now.
            let ended = if in_flight.contains(&saga.id) { now } else { saga.updated_at };
            let end = MigrationEnd::of(&SagaRecord { updated_at: ended, ..saga.clone() }, journal, &injected, since);
            migrations.push(end);
        }
        let mut violations: Vec<audit::Violation> = self.unquiet().await?.into_iter().collect();
        let waits = migrations.iter().any(|migration| !migration.faults.is_empty() && in_flight.contains(&migration.uuid));
        if waits {
            return Ok((self.summary(migrations, violations, Vec::new()), true));
        }
        let report = match self.until_stopped {
            true => audit::thorough_audit(&self.tree.world).await?,
            false => audit::audit(&self.tree.world).await?,
        };
        violations.extend(report.violations);
        Ok((self.summary(migrations, violations, report.checked.unreachable), false))
    }

    fn summary(&self, migrations: Vec<MigrationEnd>, violations: Vec<audit::Violation>, unreachable: Vec<String>) -> Findings {
        Findings {
            mode: Mode::Service,
            seed: self.scenario.seed,
            elapsed_ms: self.elapsed_ms(),
            lives: 1,
            injected: self.record.all(),
            migrations,
            violations,
            unreachable,
            answers: Default::default(),
            servers_in_error: 0,
            aborted: self.aborted.clone(),
        }
    }

    pub(super) fn view(&self) -> ExperimentView {
        let (state, verdict) = match &self.state {
            State::Running => ("running", None),
            State::Ending(_) => ("ending", None),
            State::Over(verdict) => ("over", Some((**verdict).clone())),
        };
        let (title, began_at) = (self.scenario.title.clone(), self.began_at);
        ExperimentView { title, state, began_at, left_out: self.left_out.clone(), injected: self.record.all(), verdict }
    }
}
