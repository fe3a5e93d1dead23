//! A cell's health, as its callers and its actor learn it from calls on its database. After some failures in a row the cell
//! counts as down and is answered for at once; its actor probes it until it answers again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use tokio::sync::Notify;

use super::request_clock;
use crate::db::DbError;
use crate::env::Env;
use crate::saga::world::KnownHealth;

/// Failures in a row after which a cell counts as down.
const FAILURES_MAX: u32 = 3;

/// How a cell stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It answers.
    Up,
    /// It does not; callers are refused at once.
    Down,
    /// It did not, and is being asked whether it does again; callers are still refused.
    Probing,
}

/// What is known of a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// How it stands.
    pub standing: Standing,
    /// Since when it is up, or has not answered.
    pub since: DateTime<Utc>,
    /// Why it is not up.
    pub reason: Option<String>,
}

impl KnownHealth for CellHealth {
    fn known_down(&self) -> Option<String> {
        let report = self.report();
        (report.standing != Standing::Up).then(|| self.down(&report))
    }
}

/// A cell's health. Clones share it.
#[derive(Clone)]
pub struct CellHealth {
    name: String,
    env: Env,
    state: Arc<Mutex<State>>,
    /// Told when the cell goes down or comes back.
    changed: Arc<Notify>,
}

struct State {
    report: HealthReport,
    /// Failures in a row, and the moment of the first.
    failures: u32,
    failing_since: Option<DateTime<Utc>>,
    /// Since when the standing is that was announced last, if any was.
    announced: Option<DateTime<Utc>>,
}

impl CellHealth {
    /// Up until calls say otherwise.
    pub fn new(name: &str, env: &Env) -> CellHealth {
        let report = HealthReport { standing: Standing::Up, since: env.now(), reason: None };
        let state = State { announced: Some(report.since), report, failures: 0, failing_since: None };
        CellHealth { name: name.to_owned(), env: env.clone(), state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    /// Down from the beginning, which is still to be announced.
    pub(in crate::actors) fn begin_down(&self, reason: &str) {
        let report = HealthReport { standing: Standing::Down, since: self.env.now(), reason: Some(reason.to_owned()) };
        *self.state() = State { announced: None, failures: FAILURES_MAX, failing_since: Some(report.since), report };
    }

    /// What is known now.
    pub fn report(&self) -> HealthReport {
        self.state().report.clone()
    }

    /// True unless the cell counts as down.
    pub fn is_up(&self) -> bool {
        self.state().report.standing == Standing::Up
    }

    /// Makes a call on the cell's database and learns from its outcome. Refused at once while the cell is down. In a request
    /// the request's clock counts too; no answer in time is an unavailable database.
    pub async fn call<T>(&self, patience: Duration, call: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let report = self.report();
        if report.standing != Standing::Up {
            return Err(self.unavailable(&self.down(&report)));
        }
        let Some(allowed) = request_clock::allowance(&self.name, patience) else {
            return Err(self.unavailable(&format!("cell {} did not answer this request before", self.name)));
        };
        let outcome = match tokio::time::timeout(allowed.time, call).await {
            Ok(outcome) => {
                self.learn(&outcome);
                outcome
            }
            Err(_) => {
                let reason = format!("no answer within {:?}", allowed.time);
                if allowed.fair {
                    self.failed(&reason);
                }
                Err(self.unavailable(&reason))
            }
        };
        if matches!(outcome, Err(DbError::Unavailable { .. })) {
            request_clock::failed(&self.name);
        }
        outcome
    }

    /// Why a cell that is down is not asked.
    fn down(&self, report: &HealthReport) -> String {
        let (since, reason) = (report.since.to_rfc3339_opts(SecondsFormat::Secs, true), report.reason.as_deref().unwrap_or_default());
        format!("cell {} is down since {since}: {reason}", self.name)
    }

    /// Learns from a call's outcome: only an unavailable database speaks against the cell.
    pub fn learn<T>(&self, outcome: &Result<T, DbError>) {
        match outcome {
            Err(DbError::Unavailable { reason, .. }) => self.failed(reason),
            _ => self.answered(),
        }
    }

    /// Asks a cell that is down whether it is back, and one that has begun to fail whether it is down.
    pub(in crate::actors) async fn probe(&self, deadline: Duration, call: impl Future<Output = Result<(), DbError>>) {
        {
            let mut state = self.state();
            match state.report.standing {
                Standing::Down => state.report.standing = Standing::Probing,
                Standing::Up if state.failures > 0 => {}
                Standing::Up | Standing::Probing => return,
            }
        }
        let too_late = |_| Err(self.unavailable(&format!("no answer within {deadline:?}")));
        let outcome = tokio::time::timeout(deadline, call).await.unwrap_or_else(too_late);
        if let Err(DbError::Unavailable { reason, .. }) = &outcome {
            let mut state = self.state();
            if state.report.standing == Standing::Probing {
                state.report.standing = Standing::Down;
                state.report.reason = Some(reason.clone());
                return;
            }
        }
        self.learn(&outcome);
    }

    /// A probe that was dropped half-way left no verdict.
    pub(super) fn forget_probe(&self) {
        let mut state = self.state();
        if state.report.standing == Standing::Probing {
            state.report.standing = Standing::Down;
        }
    }

    /// The standing that nobody has announced yet.
    pub(super) fn unannounced(&self) -> Option<HealthReport> {
        let state = self.state();
        (Some(state.report.since) != state.announced).then(|| state.report.clone())
    }

    /// The standing since then has been announced.
    pub(super) fn announced(&self, since: DateTime<Utc>) {
        self.state().announced = Some(since);
    }

    /// Waits until the cell goes down or comes back; for one waiter, which misses none that came before it waits.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn answered(&self) {
        let mut state = self.state();
        (state.failures, state.failing_since) = (0, None);
        if state.report.standing != Standing::Up {
            log::info!(cell = self.name.as_str(); "cell {} answers again", self.name);
            state.report = HealthReport { standing: Standing::Up, since: self.env.now(), reason: None };
            self.changed.notify_one();
        }
    }

    fn failed(&self, reason: &str) {
        let mut state = self.state();
        state.failures += 1;
        let since = *state.failing_since.get_or_insert_with(|| self.env.now());
        if state.report.standing == Standing::Up && state.failures >= FAILURES_MAX {
            log::error!(cell = self.name.as_str(); "cell {} is down: {reason}", self.name);
            state.report = HealthReport { standing: Standing::Down, since, reason: Some(reason.to_owned()) };
            self.changed.notify_one();
        }
    }

    fn unavailable(&self, reason: &str) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason: reason.to_owned() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
