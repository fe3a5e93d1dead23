//! Draws faults from the seed if a scenario names none, and the times that a scenario leaves to the seed.

use super::fault::{AtStep, MessageFault, PlannedFault, What, When};
use super::scenario::Scenario;
use crate::actors::conductor::actor_name;
use crate::chaos::borders::Outage;
use crate::chaos::point::{Moment, StepFault};
use crate::env::random::Random;
use crate::saga::step_name::StepName;
use crate::saga::tables;
use crate::virt::Operation;

/// Returns the faults of a run: the scenario's, or those that the seed draws.
pub fn drawn(seed: u64, scenario: &Scenario) -> Vec<PlannedFault> {
    if let Some(faults) = &scenario.faults {
        let mut random = Random::new(seed, "times");
        return faults.iter().map(|fault| timed(fault, &mut random)).collect();
    }
    let mut random = Random::new(seed, "faults");
    let count = random.within(0, scenario.max_faults as u64);
    let conductors = scenario.conductors(seed);
    (0..count).map(|_| one(&mut random, scenario, conductors)).collect()
}

fn timed(fault: &PlannedFault, random: &mut Random) -> PlannedFault {
    match fault.when {
        When::Between(from, to) => PlannedFault { when: When::At(random.within(from, to)), ..fault.clone() },
        _ => fault.clone(),
    }
}

fn one(random: &mut Random, scenario: &Scenario, conductors: u32) -> PlannedFault {
    if random.percent(60) {
        let at = at_a_step(random);
        let what = match random.below(10) {
            0..6 => What::Step(at_step(random, &at)),
            6..8 => What::Message(message_fault(random)),
            _ => anywhere(random, scenario, conductors),
        };
        return PlannedFault::once(When::Step(at), what);
    }
    let when = When::At(random.below(scenario.workload.seconds * 1000));
    let what = if random.percent(30) { What::Message(message_fault(random)) } else { anywhere(random, scenario, conductors) };
    PlannedFault::once(when, what)
}

/// Draws a side of a step of any saga. Early occurrences are likelier to happen.
fn at_a_step(random: &mut Random) -> AtStep {
    let mut sides = Vec::new();
    for (_, table) in tables::ALL {
        for step in table.steps {
            sides.push((step.name, "act"));
            if step.undo.work().is_some() {
                sides.push((step.name, "undo"));
            }
        }
    }
    let (step, side) = random.pick(&sides).copied().unwrap_or((StepName::Accept, "undo"));
    let moment = random.pick(&[Moment::BeforeEffect, Moment::AfterEffect, Moment::AfterJournal]).copied().unwrap_or(Moment::BeforeEffect);
    let occurrence = if side == "undo" { 1 } else { u32::try_from(random.within(1, 12)).unwrap_or(1) };
    AtStep { step: step.to_string(), saga: None, side: side.to_owned(), moment, occurrence }
}

fn at_step(random: &mut Random, at: &AtStep) -> StepFault {
    let possible: &[StepFault] = match (at.moment == Moment::BeforeEffect, at.side == "act") {
        (true, true) => {
            &[StepFault::Refuse, StepFault::LoseReply, StepFault::CompleteLate, StepFault::CompleteAfterEnd, StepFault::KillActor]
        }
        (true, false) => &[StepFault::Refuse, StepFault::LoseReply, StepFault::CompleteLate, StepFault::KillActor],
        (false, _) => &[StepFault::KillActor],
    };
    random.pick(possible).copied().unwrap_or(StepFault::KillActor)
}

fn message_fault(random: &mut Random) -> MessageFault {
    match random.below(5) {
        0 => MessageFault::LoseRequest,
        1 => MessageFault::LoseReply,
        2 => MessageFault::Again(random.within(0, 200)),
        3 => MessageFault::Again(random.within(1_000, 60_000)),
        _ => MessageFault::Late(random.within(100, 30_000)),
    }
}

fn anywhere(random: &mut Random, scenario: &Scenario, conductors: u32) -> What {
    let (cell, host) = random.pick(&scenario.topology.hosts()).cloned().unwrap_or_default();
    let for_ms = random.within(200, 20_000);
    match random.below(10) {
        0 | 1 => What::HostOff { host, resume_guests: random.percent(70), for_ms },
        2 => What::HostCrash { host },
        3 => {
            use Operation::{CopyDisks, Define, Pause, PowerOff, Start, Suspend, Undefine, Volume};
            let operations = [Define, Start, PowerOff, Pause, Suspend, Undefine, Volume, CopyDisks];
            let operation = random.pick(&operations).copied().unwrap_or(Operation::Start);
            What::Driver { host, operation, times: u32::try_from(random.within(1, 3)).unwrap_or(1) }
        }
        4..7 => database(random, scenario, for_ms),
        7 => What::Partition { cell, for_ms },
        8 => conductor(random, conductors, for_ms),
        _ if random.percent(50) => What::Restart,
        _ => What::Clock { ms: i64::try_from(random.below(240_000)).unwrap_or_default() - 120_000 },
    }
}

/// Kills a single conductor; kills or pauses one of several.
fn conductor(random: &mut Random, conductors: u32, for_ms: u64) -> What {
    if conductors < 2 {
        return What::Kill { actor: actor_name(1) };
    }
    let number = random.within(1, u64::from(conductors));
    let actor = actor_name(usize::try_from(number).unwrap_or(1));
    if random.percent(50) { What::Kill { actor } } else { What::Pause { actor, for_ms } }
}

/// Draws a cell, the API database, or a service.
fn database(random: &mut Random, scenario: &Scenario, for_ms: u64) -> What {
    let mut names = scenario.topology.cell_names();
    names.extend(["api", "network", "volume", "placement", "image"].map(str::to_owned));
    let name = random.pick(&names).cloned().unwrap_or_default();
    let outage = random.pick(&[Outage::Refuses, Outage::LosesReplies, Outage::Hangs]).copied().unwrap_or(Outage::Refuses);
    // Affects one to three calls before or after their commit, or lasts for a time.
    let (calls, for_ms) = if random.percent(50) { (u32::try_from(random.within(1, 3)).unwrap_or(1), 60_000) } else { (u32::MAX, for_ms) };
    What::Database { name, outage, calls, for_ms }
}
