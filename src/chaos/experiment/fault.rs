//! The faults of a run: drawn from the seed, or read from a scenario.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::random::Random;
use super::scenario::Scenario;
use crate::chaos::point::{Fault, Moment};
use crate::db::Outage;
use crate::saga::tables;
use crate::virt::Operation;

/// When a fault happens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// So many milliseconds after the beginning.
    At(u64),
    /// When any saga comes to this point for the so-manieth time.
    Step { step: String, side: String, moment: Moment, occurrence: u32 },
}

/// What goes wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The step at which it happens; only with [`When::Step`].
    Step(Fault),
    /// The next request to any host.
    Message(Letter),
    /// A host loses its power and gets it back.
    HostOff { cell: String, host: String, resume_guests: bool, for_ms: u64 },
    /// A host's actor panics.
    HostCrash { cell: String, host: String },
    /// The next operations of this kind fail on a host's hypervisor.
    Driver { host: String, operation: Operation, times: u32 },
    /// A database or a service's share of one; ends after the calls or the time, whichever comes first.
    Database { name: String, outage: Outage, calls: u32, for_ms: u64 },
    /// No request reaches a cell's hosts, and no reply leaves them.
    Partition { cell: String, for_ms: u64 },
    /// The wall clock jumps.
    Clock { ms: i64 },
    /// The conductor ends, and its migrations with it; its supervisor starts another.
    Conductor,
    /// The controller is killed and started again.
    Restart,
}

/// What becomes of a request to a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Letter {
    /// It never arrives.
    LoseRequest,
    /// It arrives; the reply does not.
    LoseReply,
    /// It arrives twice, the second time so many milliseconds later.
    Again(u64),
    /// It arrives so many milliseconds late.
    Late(u64),
}

/// A fault with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedFault {
    pub when: When,
    pub what: What,
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.when {
            When::At(ms) => write!(f, "at {}.{:03} s: ", ms / 1000, ms % 1000)?,
            When::Step { step, side, moment, occurrence } => write!(f, "at {side} {step}, {moment:?}, time {occurrence}: ")?,
        }
        match &self.what {
            What::Step(fault) => write!(f, "{fault:?}"),
            What::Message(letter) => write!(f, "the next request to a host: {letter:?}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The faults that a seed stands for.
pub fn drawn(seed: u64, scenario: &Scenario) -> Vec<PlannedFault> {
    if let Some(faults) = &scenario.faults {
        return faults.clone();
    }
    let mut random = Random::new(seed, "faults");
    let count = random.within(0, scenario.max_faults as u64);
    (0..count).map(|_| one(&mut random, scenario)).collect()
}

fn one(random: &mut Random, scenario: &Scenario) -> PlannedFault {
    if random.percent(60) {
        let (when, reversible) = at_a_step(random);
        let what = match random.below(10) {
            0..6 => What::Step(at_step(random, &when, reversible)),
            6..8 => What::Message(letter(random)),
            _ => anywhere(random, scenario),
        };
        return PlannedFault { when, what };
    }
    let when = When::At(random.below(scenario.seconds * 1000));
    let what = if random.percent(30) { What::Message(letter(random)) } else { anywhere(random, scenario) };
    PlannedFault { when, what }
}

/// A side of a step of any saga; early occurrences are likelier to come.
fn at_a_step(random: &mut Random) -> (When, bool) {
    let mut sides = Vec::new();
    for (_, table) in tables::ALL {
        for step in table.steps {
            sides.push((step.name, "act"));
            if step.undo.work().is_some() {
                sides.push((step.name, "undo"));
            }
        }
    }
    let (step, side) = random.pick(&sides).copied().unwrap_or(("accept", "undo"));
    let moment = random.pick(&[Moment::BeforeEffect, Moment::AfterEffect, Moment::AfterJournal]).copied().unwrap_or(Moment::BeforeEffect);
    let occurrence = if side == "undo" { 1 } else { u32::try_from(random.within(1, 12)).unwrap_or(1) };
    (When::Step { step: step.to_owned(), side: side.to_owned(), moment, occurrence }, side == "act")
}

fn at_step(random: &mut Random, when: &When, act: bool) -> Fault {
    let before = matches!(when, When::Step { moment: Moment::BeforeEffect, .. });
    let possible: &[Fault] = match (before, act) {
        (true, true) => &[Fault::Refuse, Fault::LoseReply, Fault::CompleteLate, Fault::CompleteAfterEnd, Fault::KillActor],
        (true, false) => &[Fault::Refuse, Fault::LoseReply, Fault::CompleteLate, Fault::KillActor],
        (false, _) => &[Fault::KillActor],
    };
    random.pick(possible).copied().unwrap_or(Fault::KillActor)
}

fn letter(random: &mut Random) -> Letter {
    match random.below(5) {
        0 => Letter::LoseRequest,
        1 => Letter::LoseReply,
        2 => Letter::Again(random.within(0, 200)),
        3 => Letter::Again(random.within(1_000, 60_000)),
        _ => Letter::Late(random.within(100, 30_000)),
    }
}

fn anywhere(random: &mut Random, scenario: &Scenario) -> What {
    let (cell, host) = random.pick(&scenario.hosts()).cloned().unwrap_or_default();
    let for_ms = random.within(200, 20_000);
    match random.below(10) {
        0 | 1 => What::HostOff { cell, host, resume_guests: random.percent(70), for_ms },
        2 => What::HostCrash { cell, host },
        3 => {
            let operations = [Operation::Define, Operation::Start, Operation::PowerOff, Operation::Undefine, Operation::Volume];
            let operation = random.pick(&operations).copied().unwrap_or(Operation::Start);
            What::Driver { host, operation, times: u32::try_from(random.within(1, 3)).unwrap_or(1) }
        }
        4..7 => database(random, scenario, for_ms),
        7 => What::Partition { cell, for_ms },
        8 => What::Conductor,
        _ if random.percent(50) => What::Restart,
        _ => What::Clock { ms: i64::try_from(random.below(240_000)).unwrap_or_default() - 120_000 },
    }
}

/// A cell, the API database, or one of the services.
fn database(random: &mut Random, scenario: &Scenario, for_ms: u64) -> What {
    let mut names = scenario.cell_names();
    names.extend(["api", "network", "volume", "placement", "image"].map(str::to_owned));
    let name = random.pick(&names).cloned().unwrap_or_default();
    let outage = random.pick(&[Outage::Refuses, Outage::LosesReplies, Outage::Hangs]).copied().unwrap_or(Outage::Refuses);
    // One call before or after its commit, or an outage.
    let (calls, for_ms) = if random.percent(50) { (u32::try_from(random.within(1, 3)).unwrap_or(1), 60_000) } else { (u32::MAX, for_ms) };
    What::Database { name, outage, calls, for_ms }
}
