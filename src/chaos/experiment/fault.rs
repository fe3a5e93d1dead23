//! The faults of an experiment: their times and kinds. A file writes them as `[[faults]]` (docs/EXPERIMENTS.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chaos::borders::Outage;
use crate::chaos::point::{Moment, StepFault};
use crate::virt::Operation;

/// The time of a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum When {
    /// The number of milliseconds after the beginning.
    At(u64),
    /// Between these two times, in milliseconds after the beginning; the seed draws the exact time.
    Between(u64, u64),
    /// When a saga reaches a point.
    Step(AtStep),
}

/// A point of a saga's step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AtStep {
    pub step: String,
    /// Only in this saga, by its name in the journal; in any saga if none.
    pub saga: Option<String>,
    /// `act` or `undo`.
    pub side: String,
    pub moment: Moment,
    /// The number of the occurrence, counted over all sagas.
    pub occurrence: u32,
}

impl AtStep {
    /// Returns the point before the first act of this step in any saga.
    pub fn before(step: &str) -> AtStep {
        AtStep { step: step.to_owned(), saga: None, side: "act".into(), moment: Moment::BeforeEffect, occurrence: 1 }
    }
}

/// The form of [`When`] in a file: one of three kinds.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    between_ms: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saga: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<u32>,
}

impl TryFrom<Written> for When {
    type Error = String;

    fn try_from(written: Written) -> Result<When, String> {
        let of_step = written.saga.is_some() || written.side.is_some() || written.moment.is_some() || written.occurrence.is_some();
        match written {
            Written { at_ms: Some(ms), between_ms: None, step: None, .. } if !of_step => Ok(When::At(ms)),
            Written { at_ms: None, between_ms: Some((from, to)), step: None, .. } if !of_step => Ok(When::Between(from, to)),
            Written { at_ms: None, between_ms: None, step: Some(step), saga, side, moment, occurrence } => Ok(When::Step(AtStep {
                saga,
                side: side.unwrap_or_else(|| "act".to_owned()),
                moment: moment.unwrap_or(Moment::BeforeEffect),
                occurrence: occurrence.unwrap_or(1),
                ..AtStep::before(&step)
            })),
            _ => {
                Err("`when` must be one of: `at_ms`; `between_ms`; or `step`, with `saga`, `side`, `moment` and `occurrence` if need be"
                    .into())
            }
        }
    }
}

impl From<When> for Written {
    fn from(when: When) -> Written {
        match when {
            When::At(ms) => Written { at_ms: Some(ms), ..Written::default() },
            When::Between(from, to) => Written { between_ms: Some((from, to)), ..Written::default() },
            When::Step(at) => Written {
                step: Some(at.step),
                saga: at.saga,
                side: Some(at.side),
                moment: Some(at.moment),
                occurrence: Some(at.occurrence),
                ..Written::default()
            },
        }
    }
}

fn once() -> u32 {
    1
}

fn every_call() -> u32 {
    u32::MAX
}

fn a_minute() -> u64 {
    60_000
}

fn yes() -> bool {
    true
}

/// The kind of a fault. At a step of a move, a host, cell or database may be called `source` or `target`: the move's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum What {
    /// The fault of the step itself; only with [`When::Step`].
    Step(StepFault),
    /// A fault of the next request to a host, of the saga at whose step it happens, or of any saga.
    Message(MessageFault),
    /// A host loses its power and gets it back.
    HostOff {
        host: String,
        for_ms: u64,
        #[serde(default = "yes")]
        resume_guests: bool,
    },
    /// A host's actor panics.
    HostCrash { host: String },
    /// The next operations of this kind fail in a host's hypervisor.
    Driver {
        host: String,
        operation: Operation,
        #[serde(default = "once")]
        times: u32,
    },
    /// An outage of a database, or of a service's tables in it. It ends after `calls` calls or `for_ms`, whichever comes first.
    Database {
        name: String,
        outage: Outage,
        #[serde(default = "every_call")]
        calls: u32,
        #[serde(default = "a_minute")]
        for_ms: u64,
    },
    /// No request reaches a cell's hosts, and no reply leaves them.
    Partition { cell: String, for_ms: u64 },
    /// The wall clock jumps.
    Clock { ms: i64 },
    /// A supervised actor ends with its children, and its supervisor starts it again.
    Kill { actor: String },
    /// A supervised actor pauses and takes no messages.
    Pause { actor: String, for_ms: u64 },
    /// The controller's process is killed and started again.
    Restart,
}

/// A fault of a request to a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageFault {
    /// The request never arrives.
    LoseRequest,
    /// The request arrives, but its reply is lost.
    LoseReply,
    /// The request arrives twice, the second time after this many milliseconds.
    Again(u64),
    /// The request arrives this many milliseconds late.
    Late(u64),
}

/// A fault with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    pub when: When,
    pub what: What,
    /// The number of times: at a step, for so many occurrences in a row; at a time, once per `every_ms`.
    #[serde(default = "once")]
    pub times: u32,
    /// The interval between two times; only with a time.
    #[serde(default)]
    pub every_ms: u64,
}

impl PlannedFault {
    /// Makes a fault that happens once.
    pub fn once(when: When, what: What) -> PlannedFault {
        PlannedFault { when, what, times: 1, every_ms: 0 }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Step(fault) => write!(f, "{}", step_fault(*fault)),
            What::Message(MessageFault::LoseRequest) => write!(f, "the next request to a host is lost"),
            What::Message(MessageFault::LoseReply) => write!(f, "the reply to the next request to a host is lost"),
            What::Message(MessageFault::Again(ms)) => write!(f, "the next request to a host arrives again {ms} ms later"),
            What::Message(MessageFault::Late(ms)) => write!(f, "the next request to a host arrives {ms} ms late"),
            What::HostOff { host, for_ms, resume_guests } => {
                let guests = if *resume_guests { "with" } else { "without" };
                write!(f, "host {host} loses its power for {for_ms} ms and comes back {guests} its guests")
            }
            What::HostCrash { host } => write!(f, "the actor of host {host} panics"),
            What::Driver { host, operation, times } => {
                let times = if *times == 1 { "once".to_owned() } else { format!("the next {times} times") };
                write!(f, "{operation} on host {host} fails {times}")
            }
            What::Database { name, outage, calls, for_ms } => {
                let does = match outage {
                    Outage::None => "works",
                    Outage::Refuses => "refuses calls",
                    Outage::Hangs => "does not answer",
                    Outage::LosesReplies => "commits and says that it failed",
                };
                match calls {
                    &u32::MAX => write!(f, "database {name} {does} for {for_ms} ms"),
                    calls => write!(f, "database {name} {does} for {calls} calls, {for_ms} ms at most"),
                }
            }
            What::Partition { cell, for_ms } => write!(f, "no message goes to or from the hosts of {cell} for {for_ms} ms"),
            What::Clock { ms } => write!(f, "the wall clock jumps by {ms} ms"),
            What::Kill { actor } => write!(f, "actor {actor} is killed"),
            What::Pause { actor, for_ms } => write!(f, "actor {actor} stands still for {for_ms} ms"),
            What::Restart => write!(f, "the process is killed and started again"),
        }
    }
}

fn step_fault(fault: StepFault) -> &'static str {
    match fault {
        StepFault::None | StepFault::Elsewhere | StepFault::Wait => "nothing happens",
        StepFault::Refuse => "the step is refused",
        StepFault::LoseReply => "the step's reply is lost",
        StepFault::Repeat => "the step happens twice",
        StepFault::CompleteLate => "the step ends after its deadline",
        StepFault::CompleteAfterEnd => "the step happens after the saga's end",
        StepFault::KillActor => "the migration's actor panics",
        StepFault::Freeze => "the migration's runner stops for ever",
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.when {
            When::At(ms) => write!(f, "at {}.{:03} s: ", ms / 1000, ms % 1000)?,
            When::Between(from, to) => write!(f, "between {from} and {to} ms: ")?,
            When::Step(AtStep { step, saga, side, moment, occurrence }) => {
                let saga = saga.as_ref().map_or_else(String::new, |saga| format!("{saga}: "));
                write!(f, "at {saga}{side} {step}, {moment}, time {occurrence}: ")?;
            }
        }
        write!(f, "{}", self.what)?;
        match (self.times, self.every_ms) {
            (1, _) => Ok(()),
            (times, 0) => write!(f, ", {times} times"),
            (times, every) => write!(f, ", {times} times, every {every} ms"),
        }
    }
}
