//! The verdict: all findings of a run, compared with the expectations of the experiment's file.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fault::PlannedFault;
use super::record::Injected;
use super::scenario::{Bounds, Scenario};
use crate::chaos::audit::Violation;
use crate::domain::saga_record::{JournalEntry, SagaRecord};
use crate::saga::migration_view::{StepView, steps_of};

/// The sagas that move a server from host to host.
const MOVES: [&str; 3] = ["resize", "live_migrate", "evacuate"];

/// The mode of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// On one thread, in virtual time, from a seed.
    Simulation,
    /// In a process, in real time.
    Live,
    /// On a running service and its users' servers.
    Service,
    /// On a cluster of processes that was started for it.
    Cluster,
}

/// A saga from beginning to end, with times in milliseconds after the run's beginning.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MigrationEnd {
    pub uuid: Uuid,
    pub server: Uuid,
    /// `resize`, `confirm` and so on.
    pub saga: String,
    /// `done`, `unwound`, or the state at the end of the run.
    pub state: String,
    pub error: Option<String>,
    pub began_ms: u64,
    pub ended_ms: u64,
    pub steps: Vec<StepReport>,
    /// The faults that affected it, by their index among those injected.
    pub faults: Vec<usize>,
    /// The time from the first of these faults to the saga's end.
    pub recovery_ms: Option<u64>,
}

/// A try of one side of a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepReport {
    pub step: String,
    pub side: String,
    pub attempt: i64,
    /// The outcome in the journal; none if the journal has no end.
    pub outcome: Option<String>,
    pub error: Option<String>,
    pub begun_ms: u64,
    pub ended_ms: Option<u64>,
}

impl StepReport {
    /// Converts the journal's view of a step.
    pub fn of(view: &StepView, elapsed: impl Fn(DateTime<Utc>) -> u64) -> StepReport {
        StepReport {
            step: view.step.clone(),
            side: view.side.clone(),
            attempt: view.attempt,
            outcome: view.outcome.clone(),
            error: view.error.clone(),
            begun_ms: elapsed(view.begun_at),
            ended_ms: view.ended_at.map(&elapsed),
        }
    }
}

impl MigrationEnd {
    /// Makes the description of a saga from its record and journal. `elapsed` converts moments to times in the run.
    pub fn of(saga: &SagaRecord, journal: &[JournalEntry], injected: &[Injected], elapsed: impl Fn(DateTime<Utc>) -> u64) -> MigrationEnd {
        let mut end = MigrationEnd {
            uuid: saga.id,
            server: saga.server,
            saga: saga.kind.clone(),
            state: saga.state.to_string(),
            error: saga.error.clone(),
            began_ms: elapsed(saga.created_at),
            ended_ms: elapsed(saga.updated_at),
            steps: steps_of(journal).iter().map(|step| StepReport::of(step, &elapsed)).collect(),
            faults: Vec::new(),
            recovery_ms: None,
        };
        end.met(injected);
        end
    }

    /// True if the saga moves a server from host to host.
    pub fn is_move(&self) -> bool {
        MOVES.contains(&self.saga.as_str())
    }

    /// True if the saga moved its server to the target.
    pub fn arrived(&self) -> bool {
        self.is_move() && self.state == "done"
    }

    /// True if the move was begun and came back. A move that `accept` refused was not begun.
    pub fn returned(&self) -> bool {
        self.is_move() && self.state == "unwound" && self.steps.iter().any(|step| step.step != "accept")
    }

    /// Finds the faults that affected the saga: those at its own steps, and those that affect everybody while it is in flight.
    pub fn met(&mut self, injected: &[Injected]) {
        let in_flight = |fault: &Injected| fault.at_ms >= self.began_ms && fault.at_ms < self.ended_ms;
        let meets = |fault: &Injected| fault.saga == Some(self.uuid) || (!fault.alone && in_flight(fault));
        let met = injected.iter().enumerate().filter(|(_, fault)| fault.failed.is_none() && meets(fault));
        self.faults = met.map(|(place, _)| place).collect();
        self.recovery_ms =
            self.faults.first().and_then(|first| injected.get(*first)).map(|first| self.ended_ms.saturating_sub(first.at_ms));
    }
}

/// All findings of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Findings {
    pub mode: Mode,
    pub seed: u64,
    /// The duration in the run's own time.
    pub elapsed_ms: u64,
    /// The number of lives of the controller's process.
    pub lives: usize,
    pub injected: Vec<Injected>,
    /// Oldest first.
    pub migrations: Vec<MigrationEnd>,
    /// The violations during the run or at its end.
    pub violations: Vec<Violation>,
    /// The parts that did not answer the audit.
    pub unreachable: Vec<String>,
    /// The number of answers to users by status; 0 for no answer.
    pub answers: BTreeMap<String, usize>,
    pub servers_in_error: usize,
    /// The reason why the run gave up.
    pub aborted: Option<String>,
}

impl Findings {
    /// True if nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.unreachable.is_empty()
    }
}

/// The conclusion of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// All invariants and expectations held.
    Held,
    /// An invariant or an expectation did not hold.
    Broken,
    /// Nothing was broken, but the run gave up or a part did not answer.
    Incomplete,
}

/// An expectation of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    pub what: String,
    /// The required outcome in words. A verdict's file has it as `wanted`.
    #[serde(rename = "wanted")]
    pub requirement: String,
    /// The outcome in words. A verdict's file has it as `found`.
    #[serde(rename = "found")]
    pub result: String,
    pub met: bool,
}

/// The times to recover of the affected migrations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub migrations: usize,
    pub median_ms: u64,
    pub p99_ms: u64,
    pub longest_ms: u64,
}

/// The verdict on a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub title: String,
    pub description: String,
    pub conclusion: Conclusion,
    pub expectations: Vec<Expectation>,
    pub recovery: Option<Recovery>,
    /// The faults of the file that did not happen.
    pub not_injected: Vec<String>,
    #[serde(flatten)]
    pub findings: Findings,
}

impl Verdict {
    /// Judges a run. `planned` are its faults, from the file or drawn by the seed.
    pub fn of(scenario: &Scenario, planned: &[PlannedFault], findings: Findings) -> Verdict {
        let not_injected: Vec<String> = missing(planned, &findings.injected);
        let recovery = recovery(&findings.migrations);
        let mut expectations = expectations(scenario, &findings, recovery);
        if scenario.expect.all_faults && scenario.faults.is_some() && findings.aborted.is_none() {
            expectations.push(Expectation {
                what: "faults that did not happen".into(),
                requirement: "none".into(),
                result: not_injected.len().to_string(),
                met: not_injected.is_empty(),
            });
        }
        let broken = !findings.violations.is_empty() || expectations.iter().any(|expectation| !expectation.met);
        let conclusion = match (broken, findings.aborted.is_some() || !findings.unreachable.is_empty()) {
            // A run that gave up could not meet the expectations.
            (true, true) if findings.violations.is_empty() => Conclusion::Incomplete,
            (true, _) => Conclusion::Broken,
            (false, true) => Conclusion::Incomplete,
            (false, false) => Conclusion::Held,
        };
        Verdict {
            title: scenario.title.clone(),
            description: scenario.description.trim().to_owned(),
            conclusion,
            expectations,
            recovery,
            not_injected,
            findings,
        }
    }
}

fn missing(planned: &[PlannedFault], injected: &[Injected]) -> Vec<String> {
    let lacks = |(number, fault): (usize, &PlannedFault)| {
        let happened = injected.iter().filter(|one| one.fault == number && one.failed.is_none()).count();
        let times = fault.times as usize;
        (happened < times).then(|| {
            let why = injected.iter().filter(|one| one.fault == number).find_map(|one| one.failed.as_deref());
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            format!("{fault} (happened {happened} times of {times}{why})")
        })
    };
    planned.iter().enumerate().filter_map(lacks).collect()
}

/// The median and the 99th percentile are values that occurred: the smallest that so many values do not exceed.
fn recovery(migrations: &[MigrationEnd]) -> Option<Recovery> {
    let mut times: Vec<u64> = migrations.iter().filter_map(|migration| migration.recovery_ms).collect();
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
    let longest_ms = *times.last()?;
    Some(Recovery { migrations: times.len(), median_ms: at(50), p99_ms: at(99), longest_ms })
}

fn expectations(scenario: &Scenario, findings: &Findings, recovery: Option<Recovery>) -> Vec<Expectation> {
    let expect = &scenario.expect;
    let arrived = findings.migrations.iter().filter(|migration| migration.arrived()).count();
    let returned = findings.migrations.iter().filter(|migration| migration.returned()).count();
    let counted: [(&str, Option<Bounds>, usize); 4] = [
        ("moves that arrived", expect.arrived, arrived),
        ("moves that came back", expect.returned, returned),
        ("lives of the controller", expect.lives, findings.lives),
        ("servers in ERROR", expect.servers_in_error, findings.servers_in_error),
    ];
    let mut all: Vec<Expectation> = counted
        .into_iter()
        .filter_map(|(what, bounds, number)| {
            let bounds = bounds?;
            Some(Expectation { what: what.into(), requirement: bounds.to_string(), result: number.to_string(), met: bounds.hold(number) })
        })
        .collect();
    if let Some(most) = expect.recovery_p99_ms {
        let p99_ms = recovery.map_or(0, |recovery| recovery.p99_ms);
        all.push(Expectation {
            what: "recovery, 99th percentile".into(),
            requirement: format!("at most {most} ms"),
            result: format!("{p99_ms} ms"),
            met: p99_ms <= most,
        });
    }
    all
}

#[cfg(test)]
mod tests;
