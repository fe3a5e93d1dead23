//! A cell's health. Calls on its database tell it to callers and to the cell's actor. After some failures in a row the cell counts as down,
//! and calls are refused at once; its actor probes it until it answers again.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::request_clock;
use crate::db::DbError;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::env::Env;
use crate::saga::world::Reachability;

/// The number of failures in a row after which a cell counts as down.
const FAILURES_MAX: u32 = 3;

/// A cell's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellStanding {
    /// The database answers.
    Up,
    /// The database does not answer; calls are refused at once.
    Down,
    /// The database did not answer and is being probed; calls are still refused.
    Probing,
}

/// A cell's state with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// The state.
    pub standing: CellStanding,
    /// The time since which the cell is up, or has not answered.
    pub since: DateTime<Utc>,
    /// The reason why the cell is not up.
    pub reason: Option<Reason>,
}

impl Reachability for CellHealth {
    fn outage(&self) -> Option<Reason> {
        let report = self.report();
        (report.standing != CellStanding::Up).then(|| self.down(&report))
    }
}

/// A cell's health. Clones share it.
#[derive(Clone)]
pub struct CellHealth {
    name: String,
    env: Env,
    state: Arc<Mutex<State>>,
    /// Notified when the cell goes down or comes back.
    changed: Arc<Notify>,
}

struct State {
    report: HealthReport,
    /// The number of failures in a row, and the time of the first.
    failures: u32,
    failing_since: Option<DateTime<Utc>>,
    /// The time of the change that was announced last, if any was.
    announced: Option<DateTime<Utc>>,
}

impl CellHealth {
    /// Makes the health of a cell that counts as up.
    pub fn new(name: &str, env: &Env) -> CellHealth {
        let report = HealthReport { standing: CellStanding::Up, since: env.now(), reason: None };
        let state = State { announced: Some(report.since), report, failures: 0, failing_since: None };
        env.metrics().cell_is(name, true);
        CellHealth { name: name.to_owned(), env: env.clone(), state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    /// Sets the cell down from the start; the change is still to be announced.
    pub(in crate::actors) fn begin_down(&self, reason: &Reason) {
        let report = HealthReport { standing: CellStanding::Down, since: self.env.now(), reason: Some(reason.clone()) };
        self.env.metrics().cell_is(&self.name, false);
        *self.state.lock() = State { announced: None, failures: FAILURES_MAX, failing_since: Some(report.since), report };
    }

    /// Returns the present state.
    pub fn report(&self) -> HealthReport {
        self.state.lock().report.clone()
    }

    /// True unless the cell counts as down.
    pub fn is_up(&self) -> bool {
        self.state.lock().report.standing == CellStanding::Up
    }

    /// Calls the cell's database and learns from the outcome. Refused at once while the cell is down. Within a request the request's clock
    /// counts, too. No answer in time means an unavailable database.
    pub async fn call<T>(&self, patience: Duration, call: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let report = self.report();
        if report.standing != CellStanding::Up {
            return Err(self.unavailable(self.down(&report)));
        }
        let Some(allowed) = request_clock::allowance(&self.name, patience) else {
            return Err(self.unavailable(reason!("cell {} did not answer this request before", self.name)));
        };
        let outcome = match tokio::time::timeout(allowed.time, call).await {
            Ok(outcome) => {
                self.learn(&outcome);
                outcome
            }
            Err(_) => {
                let reason = reason!("no answer within {:?}", allowed.time);
                if allowed.fair {
                    self.failed(&reason);
                }
                Err(self.unavailable(reason))
            }
        };
        if matches!(outcome, Err(DbError::Unavailable { .. })) {
            request_clock::failed(&self.name);
        }
        outcome
    }

    /// Returns the reason why a cell that is down is not called.
    fn down(&self, report: &HealthReport) -> Reason {
        let (since, reason) = (report.since.to_rfc3339_opts(SecondsFormat::Secs, true), report.reason.clone().unwrap_or_default());
        reason!("cell {} is down since {since}: {reason}", self.name)
    }

    /// Learns from a call's outcome: only an unavailable database counts as a failure.
    pub fn learn<T>(&self, outcome: &Result<T, DbError>) {
        match outcome {
            Err(DbError::Unavailable { reason, .. }) => self.failed(reason),
            _ => self.answered(),
        }
    }

    /// Probes a cell that is down, and a cell that has begun to fail.
    pub(in crate::actors) async fn probe(&self, deadline: Duration, call: impl Future<Output = Result<(), DbError>>) {
        {
            let mut state = self.state.lock();
            match state.report.standing {
                CellStanding::Down => state.report.standing = CellStanding::Probing,
                CellStanding::Up if state.failures > 0 => {}
                CellStanding::Up | CellStanding::Probing => return,
            }
        }
        let too_late = |_| Err(self.unavailable(reason!("no answer within {deadline:?}")));
        let outcome = tokio::time::timeout(deadline, call).await.unwrap_or_else(too_late);
        if let Err(DbError::Unavailable { reason, .. }) = &outcome {
            let mut state = self.state.lock();
            if state.report.standing == CellStanding::Probing {
                state.report.standing = CellStanding::Down;
                state.report.reason = Some(reason.clone());
                return;
            }
        }
        self.learn(&outcome);
    }

    /// A probe that was dropped half-way gave no result.
    pub(super) fn forget_probe(&self) {
        let mut state = self.state.lock();
        if state.report.standing == CellStanding::Probing {
            state.report.standing = CellStanding::Down;
        }
    }

    /// Returns the change that has not been announced yet.
    pub(super) fn unannounced(&self) -> Option<HealthReport> {
        let state = self.state.lock();
        (Some(state.report.since) != state.announced).then(|| state.report.clone())
    }

    /// Notes that this change has been announced.
    pub(super) fn announced(&self, since: DateTime<Utc>) {
        self.state.lock().announced = Some(since);
    }

    /// Waits until the cell goes down or comes back. For one waiter, which misses no change before its wait.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn answered(&self) {
        let mut state = self.state.lock();
        (state.failures, state.failing_since) = (0, None);
        if state.report.standing != CellStanding::Up {
            log::info!(cell = self.name.as_str(); "cell {} answers again", self.name);
            self.env.metrics().cell_is(&self.name, true);
            state.report = HealthReport { standing: CellStanding::Up, since: self.env.now(), reason: None };
            self.changed.notify_one();
        }
    }

    fn failed(&self, reason: &Reason) {
        let mut state = self.state.lock();
        state.failures += 1;
        self.env.metrics().cell_failed(&self.name);
        let since = *state.failing_since.get_or_insert_with(|| self.env.now());
        if state.report.standing == CellStanding::Up && state.failures >= FAILURES_MAX {
            log::error!(cell = self.name.as_str(); "cell {} is down: {reason}", self.name);
            self.env.metrics().cell_is(&self.name, false);
            state.report = HealthReport { standing: CellStanding::Down, since, reason: Some(reason.clone()) };
            self.changed.notify_one();
        }
    }

    fn unavailable(&self, reason: Reason) -> DbError {
        DbError::Unavailable { name: self.name.clone(), reason }
    }
}
