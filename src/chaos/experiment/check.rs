//! Parses an experiment's file, and refuses wrong values with their line and the allowed values.

use std::collections::BTreeSet;
use std::fmt;

use toml::de::{DeTable, DeValue};

use super::fault::{AtStep, PlannedFault, What, When};
use super::journey::{Journey, UserAction};
use super::scenario::{Bounds, Scenario};
use crate::actors::conductor::{CONDUCTORS_MAX, actor_name};
use crate::actors::root::hosts_here_name;
use crate::chaos::borders::Outage;
use crate::chaos::point::{Moment, StepFault};
use crate::domain::server_group::GroupPolicy;
use crate::saga::context::Kind;
use crate::saga::tables;

/// The flavors of the default cloud.
pub const FLAVORS: [&str; 6] = ["m1.tiny", "m1.small", "gen1.small", "gen1.large", "gen2.small", "gen2.large"];
/// The databases beside the cells' databases.
pub const SERVICES: [&str; 5] = ["api", "network", "volume", "placement", "image"];
/// The actors beside those of cells, hosts, their supervisors and conductors.
pub const ACTORS: [&str; 3] = ["scheduler", "notifier", "periodic"];
/// The names for places of the move at hand.
pub const OF_THE_MOVE: [&str; 2] = ["source", "target"];

/// A refusal of a part of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// Line and column, from 1; none without a file.
    pub place: Option<(usize, usize)>,
    /// The key, as `faults[0].when.step`; empty if the text cannot be parsed.
    pub key: String,
    /// The fault, and the allowed values.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.message)
    }
}

/// Parses a scenario, or returns all complaints about it.
pub fn parse(text: &str) -> Result<Scenario, Vec<Complaint>> {
    let scenario = read(text).map_err(|complaint| vec![complaint])?;
    let mut complaints = complaints(&scenario);
    if complaints.is_empty() {
        return Ok(scenario);
    }
    if let Ok(table) = DeTable::parse(text) {
        for complaint in &mut complaints {
            complaint.place = span_of(table.get_ref(), &complaint.key).map(|start| place_of(text, start));
        }
    }
    Err(complaints)
}

/// Parses a scenario without a check of its names.
pub fn read(text: &str) -> Result<Scenario, Complaint> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let place = error.span().map(|span| place_of(text, span.start));
        Complaint { place, key: String::new(), message: error.message().trim_end().replace('\n', "; ") }
    })
}

/// Returns the line and column of a byte.
fn place_of(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}

/// Returns where a key's value begins, or the nearest surrounding value that the text has.
fn span_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let mut parts = key.split(['.', '[', ']']).filter(|part| !part.is_empty());
    let (name, value) = table.iter().find(|(name, _)| Some(name.get_ref().as_ref()) == parts.clone().next())?;
    parts.next();
    let (mut at, mut value) = (name.span().start, value);
    for part in parts {
        let inner = match value.get_ref() {
            DeValue::Table(table) => table.iter().find(|(name, _)| name.get_ref() == part).map(|(_, value)| value),
            DeValue::Array(items) => part.parse::<usize>().ok().and_then(|number| items.get(number)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        value = inner;
        at = value.span().start;
    }
    Some(at)
}

/// Returns all complaints about a scenario; none if it can run.
pub fn complaints(scenario: &Scenario) -> Vec<Complaint> {
    let mut check = Check { scenario, complaints: Vec::new() };
    check.topology();
    check.workload();
    for (number, fault) in scenario.faults.iter().flatten().enumerate() {
        check.fault(&format!("faults[{number}]"), fault);
    }
    check.expectations();
    check.complaints
}

struct Check<'a> {
    scenario: &'a Scenario,
    complaints: Vec<Complaint>,
}

impl Check<'_> {
    fn refuse(&mut self, wrong: bool, key: &str, message: impl FnOnce() -> String) {
        if wrong {
            self.complaints.push(Complaint { place: None, key: key.to_owned(), message: message() });
        }
    }

    /// Refuses a name outside `allowed`.
    fn choice(&mut self, key: &str, name: &str, what: &str, allowed: &[&str]) {
        self.refuse(!allowed.contains(&name), key, || format!("{name:?} is no {what}; allowed are {}", allowed.join(", ")));
    }

    fn topology(&mut self) {
        let topology = &self.scenario.topology;
        self.refuse(!(1..=10).contains(&topology.cells), "topology.cells", || "it must be between 1 and 10".into());
        self.refuse(!(1..=20).contains(&topology.hosts_per_cell), "topology.hosts_per_cell", || "it must be between 1 and 20".into());
        let conductors = topology.conductors.unwrap_or(1) as usize;
        self.refuse(!(1..=CONDUCTORS_MAX).contains(&conductors), "topology.conductors", || {
            format!("it must be between 1 and {CONDUCTORS_MAX}")
        });
        let most_ms = 10_000;
        self.refuse(topology.max_delay_ms > most_ms, "topology.max_delay_ms", || format!("it must be at most {most_ms}"));
        self.refuse(topology.max_latency_ms > most_ms, "topology.max_latency_ms", || format!("it must be at most {most_ms}"));
    }

    fn workload(&mut self) {
        let workload = &self.scenario.workload;
        self.refuse(!(1..=3600).contains(&workload.seconds), "workload.seconds", || "it must be between 1 and 3600".into());
        let hosts: Vec<String> = self.scenario.topology.hosts().into_iter().map(|(_, host)| host).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        for (number, journey) in workload.journeys.iter().enumerate() {
            self.journey(&format!("workload.journeys[{number}]"), journey, &hosts);
        }
    }

    fn journey(&mut self, key: &str, journey: &Journey, hosts: &[&str]) {
        self.refuse(!(1..=200).contains(&journey.servers), &format!("{key}.servers"), || "it must be between 1 and 200".into());
        self.refuse(journey.volumes > 4, &format!("{key}.volumes"), || "it must be at most 4".into());
        self.refuse(i32::try_from(journey.egress_kbps).is_err(), &format!("{key}.egress_kbps"), || "it must be at most 2147483647".into());
        self.choice(&format!("{key}.flavor"), &journey.flavor, "flavor", &FLAVORS);
        if let Some(group) = &journey.group {
            let policies: Vec<&str> = GroupPolicy::ALL.iter().map(|policy| policy.as_str()).collect();
            self.choice(&format!("{key}.group"), group, "policy of a server group", &policies);
        }
        for (number, act) in journey.acts.iter().enumerate() {
            match act {
                UserAction::Resize(flavor) => self.choice(&format!("{key}.acts[{number}].resize"), flavor, "flavor", &FLAVORS),
                UserAction::MigrateTo(host) => self.choice(&format!("{key}.acts[{number}].migrate_to"), host, "host", hosts),
                UserAction::ForceLiveMigrateTo(host) => {
                    self.choice(&format!("{key}.acts[{number}].force_live_migrate_to"), host, "host", hosts);
                }
                UserAction::LiveMigrateTo(host) => self.choice(&format!("{key}.acts[{number}].live_migrate_to"), host, "host", hosts),
                _ => {}
            }
        }
    }

    fn fault(&mut self, key: &str, fault: &PlannedFault) {
        let when = format!("{key}.when");
        match &fault.when {
            When::Step(at) => {
                self.step(&when, at);
                self.refuse(fault.every_ms > 0, &format!("{key}.every_ms"), || {
                    "a fault at a step has no `every_ms`; with `times` it happens at so many occurrences in a row".into()
                });
            }
            When::Between(from, to) => {
                self.refuse(from > to, &format!("{when}.between_ms"), || "the first must not be above the second".into())
            }
            When::At(_) => {}
        }
        let in_time = !matches!(fault.when, When::Step(_));
        self.refuse(!(1..=1000).contains(&fault.times), &format!("{key}.times"), || "it must be between 1 and 1000".into());
        self.refuse(in_time && fault.times > 1 && fault.every_ms == 0, &format!("{key}.times"), || {
            "a fault that happens several times at a time needs `every_ms`".into()
        });
        self.what(&format!("{key}.what"), fault);
    }

    fn step(&mut self, key: &str, at: &AtStep) {
        let steps: BTreeSet<&str> = tables::ALL.iter().flat_map(|(_, table)| table.steps).map(|step| step.name.as_str()).collect();
        let sagas: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        self.choice(&format!("{key}.step"), &at.step, "step of an operation", &steps.iter().copied().collect::<Vec<_>>());
        self.choice(&format!("{key}.side"), &at.side, "side of a step", &["act", "undo"]);
        if let Some(saga) = &at.saga {
            self.choice(&format!("{key}.saga"), saga, "saga", &sagas);
        }
        let undone =
            tables::ALL.iter().flat_map(|(_, table)| table.steps).any(|step| step.name.as_str() == at.step && step.undo.work().is_some());
        self.refuse(at.side == "undo" && steps.contains(at.step.as_str()) && !undone, &format!("{key}.side"), || {
            format!("the step {} has no undo", at.step)
        });
        self.refuse(at.occurrence == 0, &format!("{key}.occurrence"), || "it must be at least 1".into());
    }

    fn what(&mut self, key: &str, fault: &PlannedFault) {
        let at = match &fault.when {
            When::Step(at) => Some(at),
            _ => None,
        };
        match &fault.what {
            What::Step(step) => self.step_fault(&format!("{key}.step"), *step, at),
            What::HostOff { host, for_ms, .. } => {
                self.host(&format!("{key}.host_off.host"), host, at);
                self.lasts(&format!("{key}.host_off.for_ms"), *for_ms);
            }
            What::HostCrash { host } => self.host(&format!("{key}.host_crash.host"), host, at),
            What::Driver { host, times, .. } => {
                self.host(&format!("{key}.driver.host"), host, at);
                self.refuse(*times == 0, &format!("{key}.driver.times"), || "it must be at least 1".into());
            }
            What::Database { name, outage, for_ms, calls } => {
                self.place(&format!("{key}.database.name"), name, "database", &SERVICES, at);
                self.refuse(*outage == Outage::None, &format!("{key}.database.outage"), || {
                    "allowed are refuses, hangs, loses_replies".into()
                });
                self.lasts(&format!("{key}.database.for_ms"), *for_ms);
                self.refuse(*calls == 0, &format!("{key}.database.calls"), || "it must be at least 1".into());
            }
            What::Partition { cell, for_ms } => {
                self.place(&format!("{key}.partition.cell"), cell, "cell", &[], at);
                self.lasts(&format!("{key}.partition.for_ms"), *for_ms);
            }
            What::Kill { actor } => self.actor(&format!("{key}.kill.actor"), actor),
            What::Pause { actor, for_ms } => {
                self.actor(&format!("{key}.pause.actor"), actor);
                self.lasts(&format!("{key}.pause.for_ms"), *for_ms);
            }
            What::Message(_) | What::Clock { .. } | What::Restart => {}
        }
    }

    fn step_fault(&mut self, key: &str, fault: StepFault, at: Option<&AtStep>) {
        let Some(at) = at else {
            return self.refuse(true, key, || "it happens at a step: say which in `when`".into());
        };
        let allowed: &[(StepFault, &str)] = match at.moment {
            Moment::BeforeEffect => &[
                (StepFault::Refuse, "refuse"),
                (StepFault::LoseReply, "lose_reply"),
                (StepFault::Repeat, "repeat"),
                (StepFault::CompleteLate, "complete_late"),
                (StepFault::CompleteAfterEnd, "complete_after_end"),
                (StepFault::KillActor, "kill_actor"),
            ],
            Moment::AfterEffect => &[(StepFault::Refuse, "refuse"), (StepFault::KillActor, "kill_actor")],
            Moment::AfterJournal => &[(StepFault::KillActor, "kill_actor")],
        };
        let names: Vec<&str> = allowed.iter().map(|(_, name)| *name).collect();
        self.refuse(allowed.iter().all(|(one, _)| *one != fault), key, || {
            format!("it cannot happen at this moment; allowed are {}", names.join(", "))
        });
    }

    fn lasts(&mut self, key: &str, ms: u64) {
        self.refuse(!(1..=3_600_000).contains(&ms), key, || "it must be between 1 and 3600000 ms".into());
    }

    fn host(&mut self, key: &str, host: &str, at: Option<&AtStep>) {
        let hosts: Vec<String> = self.scenario.topology.hosts().into_iter().map(|(_, host)| host).collect();
        let mut allowed: Vec<&str> = hosts.iter().map(String::as_str).collect();
        allowed.extend(if at.is_some() { &OF_THE_MOVE[..] } else { &[] });
        self.choice(key, host, "host", &allowed);
    }

    /// Checks a name: a cell, one of `others`, or (at a step) a cell of the move.
    fn place(&mut self, key: &str, name: &str, what: &str, others: &[&str], at: Option<&AtStep>) {
        let cells = self.scenario.topology.cell_names();
        let mut allowed: Vec<&str> = cells.iter().map(String::as_str).chain(others.iter().copied()).collect();
        allowed.extend(if at.is_some() { &OF_THE_MOVE[..] } else { &[] });
        self.choice(key, name, what, &allowed);
    }

    fn actor(&mut self, key: &str, actor: &str) {
        let topology = &self.scenario.topology;
        let (cells, hosts) = (topology.cell_names(), topology.hosts());
        let hosts: Vec<String> = hosts.into_iter().map(|(cell, host)| format!("{cell}/{host}")).collect();
        let conductors: Vec<String> = (1..=topology.conductors.unwrap_or(1)).map(|number| actor_name(number as usize)).collect();
        let supervisors: Vec<String> = cells.iter().map(|cell| hosts_here_name(cell)).collect();
        let actors = conductors.iter().map(String::as_str).chain(ACTORS);
        let allowed: Vec<&str> = actors.chain(cells.iter().chain(&supervisors).chain(&hosts).map(String::as_str)).collect();
        self.choice(key, actor, "actor", &allowed);
    }

    fn expectations(&mut self) {
        let (expect, abort) = (&self.scenario.expect, &self.scenario.abort);
        let ordered =
            |bounds: &Option<Bounds>| !bounds.is_some_and(|b| b.at_least.zip(b.at_most).is_some_and(|(least, most)| least > most));
        for (name, bounds) in [
            ("arrived", &expect.arrived),
            ("returned", &expect.returned),
            ("lives", &expect.lives),
            ("servers_in_error", &expect.servers_in_error),
        ] {
            self.refuse(!ordered(bounds), &format!("expect.{name}"), || "`at_least` must not be above `at_most`".into());
        }
        self.refuse(expect.quiet_within_seconds == 0, "expect.quiet_within_seconds", || "it must be at least 1".into());
        for (name, number) in
            [("violations", abort.violations), ("failed_answers", abort.failed_answers), ("servers_in_error", abort.servers_in_error)]
        {
            self.refuse(number == Some(0), &format!("abort.{name}"), || "it must be at least 1".into());
        }
    }
}

#[cfg(test)]
mod tests;
