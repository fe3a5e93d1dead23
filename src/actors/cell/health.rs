//! A cell's health, as its callers and its actor learn it from calls on its database. After some failures in a row the cell
//! counts as down and is answered for at once; its actor probes it until it answers again (architecture §7).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::db::DbError;
use crate::env::Env;

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
    /// Since when it is up, or is not.
    pub since: DateTime<Utc>,
    /// Why it is not up.
    pub reason: Option<String>,
}

/// A cell's health. Clones share it.
#[derive(Clone)]
pub struct CellHealth {
    name: String,
    env: Env,
    state: Arc<Mutex<State>>,
}

struct State {
    report: HealthReport,
    failures: u32,
}

impl CellHealth {
    /// Up until calls say otherwise.
    pub fn new(name: &str, env: &Env) -> CellHealth {
        let report = HealthReport { standing: Standing::Up, since: env.now(), reason: None };
        CellHealth { name: name.to_owned(), env: env.clone(), state: Arc::new(Mutex::new(State { report, failures: 0 })) }
    }

    /// What is known now.
    pub fn report(&self) -> HealthReport {
        self.state().report.clone()
    }

    /// True unless the cell counts as down.
    pub fn is_up(&self) -> bool {
        self.state().report.standing == Standing::Up
    }

    /// Makes a call on the cell's database and learns from its outcome. Refused at once while the cell is down; no answer
    /// within the deadline is an unavailable database.
    pub async fn call<T>(&self, deadline: Duration, call: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let HealthReport { standing, reason, .. } = self.report();
        if standing != Standing::Up {
            return Err(self.unavailable(&reason.unwrap_or_default()));
        }
        let outcome = self.within(deadline, call).await;
        self.learn(&outcome);
        outcome
    }

    /// Learns from a call's outcome: only an unavailable database speaks against the cell.
    pub fn learn<T>(&self, outcome: &Result<T, DbError>) {
        match outcome {
            Err(DbError::Unavailable { reason, .. }) => self.failed(reason),
            _ => self.answered(),
        }
    }

    /// Asks a cell that is down whether it is back.
    pub(super) async fn probe(&self, deadline: Duration, call: impl Future<Output = Result<(), DbError>>) {
        {
            let mut state = self.state();
            if state.report.standing != Standing::Down {
                return;
            }
            state.report.standing = Standing::Probing;
        }
        let outcome = self.within(deadline, call).await;
        if let Err(DbError::Unavailable { reason, .. }) = outcome {
            let mut state = self.state();
            state.report.standing = Standing::Down;
            state.report.reason = Some(reason);
        } else {
            self.answered();
        }
    }

    /// A probe that was dropped half-way left no verdict.
    pub(super) fn forget_probe(&self) {
        let mut state = self.state();
        if state.report.standing == Standing::Probing {
            state.report.standing = Standing::Down;
        }
    }

    async fn within<T>(&self, deadline: Duration, call: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let too_late = |_| Err(self.unavailable(&format!("no answer within {deadline:?}")));
        tokio::time::timeout(deadline, call).await.unwrap_or_else(too_late)
    }

    fn answered(&self) {
        let mut state = self.state();
        state.failures = 0;
        if state.report.standing != Standing::Up {
            log::info!(cell = self.name.as_str(); "cell {} answers again", self.name);
            state.report = HealthReport { standing: Standing::Up, since: self.env.now(), reason: None };
        }
    }

    fn failed(&self, reason: &str) {
        let mut state = self.state();
        state.failures += 1;
        if state.report.standing == Standing::Up && state.failures >= FAILURES_MAX {
            log::error!(cell = self.name.as_str(); "cell {} is down: {reason}", self.name);
            state.report = HealthReport { standing: Standing::Down, since: self.env.now(), reason: Some(reason.to_owned()) };
        }
    }

    fn unavailable(&self, reason: &str) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason: reason.to_owned() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
