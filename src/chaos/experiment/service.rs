//! Faults against a running service, and an experiment loaded into it (`/ops/v1/chaos`). One task owns both, takes commands, ends lasting
//! faults, and reports all faults in the log and in the notifications.

mod fault_reporter;
mod fault_runner;
mod fit;
mod loaded;

use std::collections::BTreeMap;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use self::fault_reporter::FaultReporter;
use self::fault_runner::FaultRunner;
pub use self::fit::unfit_for_cluster;
use super::Witness;
use super::check::Complaint;
use super::fault::What;
use super::injector::Injector;
use super::record::Injected;
use super::scenario::Scenario;
use super::verdict::Verdict;
use crate::actors::root::Tree;
use crate::chaos::seams::Seams;
use crate::db::Db;

/// The maximum number of waiting commands. Beyond it callers are told to come back.
const QUEUE: usize = 64;

/// A fault that an operator injected.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HandFault {
    pub id: Uuid,
    pub what: What,
    pub at: chrono::DateTime<chrono::Utc>,
    /// True while it lasts.
    pub active: bool,
}

/// An experiment as its operator sees it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentView {
    pub title: String,
    /// `running`; `ending`, when its faults are over and the affected sagas come to an end; `over`.
    pub state: &'static str,
    pub began_at: chrono::DateTime<chrono::Utc>,
    /// The parts of the file that the service replaces or does not judge, as sentences that begin with the key.
    pub left_out: Vec<String>,
    pub injected: Vec<Injected>,
    /// Present once it is over.
    pub verdict: Option<Verdict>,
}

/// A witness that ignores the messages of a service.
pub struct Unwatched;

impl Witness for Unwatched {
    fn elapsed_ms(&self) -> u64 {
        0
    }

    fn note(&self, line: String) {
        log::debug!("{line}");
    }
}

/// The reason why a command is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    NotFound(String),
    #[error("too much is asked of it at once, or it is stopping")]
    Busy,
}

type Reply<T> = oneshot::Sender<Result<T, Refused>>;

enum Command {
    Faults(Reply<Vec<HandFault>>),
    Inject(What, Reply<HandFault>),
    End(Uuid, Reply<()>),
    /// With true, the experiment lasts until it is stopped.
    Load(Box<Scenario>, bool, Reply<ExperimentView>),
    Show(Reply<ExperimentView>),
    Stop(Reply<ExperimentView>),
}

/// The API's handle of the task.
#[derive(Clone)]
pub struct Chaos {
    commands: mpsc::Sender<Command>,
    tree: Tree,
}

/// The parts of the task.
pub struct Parts {
    pub tree: Tree,
    /// By the names that faults use.
    pub databases: BTreeMap<String, Db>,
    pub seams: Seams,
    /// True if hosts are agents of their own.
    pub agents: bool,
}

/// Starts the task on this thread's runtime. It ends with its last handle.
pub fn start(parts: Parts) -> Chaos {
    let (commands, receiver) = mpsc::channel(QUEUE);
    let tree = parts.tree.clone();
    let steps = parts.seams.steps.clone();
    let injector = Injector::new(tree.clone(), parts.databases, parts.seams, None);
    let reporter = FaultReporter::new(tree.notifier.clone());
    let (runner, channels) = FaultRunner::new(tree.clone(), steps, injector, reporter, parts.agents);
    tokio::spawn(runner.run(receiver, channels));
    Chaos { commands, tree }
}

impl Chaos {
    /// Returns the tree whose actors can be killed and paused.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the faults that operators injected, oldest first.
    pub async fn faults(&self) -> Result<Vec<HandFault>, Refused> {
        self.ask(Command::Faults).await
    }

    /// Makes a fault happen now.
    pub async fn inject(&self, what: What) -> Result<HandFault, Refused> {
        self.ask(|reply| Command::Inject(what, reply)).await
    }

    /// Ends a fault that an operator injected.
    pub async fn end(&self, id: Uuid) -> Result<(), Refused> {
        self.ask(|reply| Command::End(id, reply)).await
    }

    /// Loads an experiment and begins it. With `until_stopped` it goes on when its faults have happened, and its verdict follows once it was
    /// stopped and nothing in the whole cloud is at work. Conflict while another one is not over.
    pub async fn load(&self, scenario: Scenario, until_stopped: bool) -> Result<ExperimentView, Refused> {
        self.ask(|reply| Command::Load(Box::new(scenario), until_stopped, reply)).await
    }

    /// Returns the experiment that was loaded last.
    pub async fn show(&self) -> Result<ExperimentView, Refused> {
        self.ask(Command::Show).await
    }

    /// Ends the experiment's faults. Its verdict follows when the affected sagas have ended.
    pub async fn stop(&self) -> Result<ExperimentView, Refused> {
        self.ask(Command::Stop).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(command(reply)).map_err(|_| Refused::Busy)?;
        answer.await.unwrap_or(Err(Refused::Busy))
    }
}

fn refuse(complaints: &[Complaint]) -> Result<(), Refused> {
    let texts: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    if texts.is_empty() { Ok(()) } else { Err(Refused::Invalid(texts.join("; "))) }
}

fn complaint(key: &str, message: &str) -> Complaint {
    Complaint { place: None, key: key.to_owned(), message: message.to_owned() }
}

/// Returns why a running service cannot have this fault. With `agents`, its hosts are processes of their own.
fn possible(key: &str, what: &What, at_step: bool, agents: bool) -> Option<Complaint> {
    if agents && let Some(complaint) = possible_with_agents(key, what) {
        return Some(complaint);
    }
    match what {
        What::Restart if !at_step => Some(complaint(key, "a service ends itself only at a step: kill its process")),
        What::Clock { .. } => Some(complaint(key, "the clock of a running service does not jump")),
        What::Step(_) if !at_step => Some(complaint(key, "it happens at a step: load an experiment that says which")),
        _ => None,
    }
}

/// Returns why this fault cannot happen in a host that is a process of its own.
fn possible_with_agents(key: &str, what: &What) -> Option<Complaint> {
    // The actors of hosts and their supervisors have a cell in their names.
    let is_of_host = |actor: &str| actor.contains('/');
    match what {
        What::HostOff { .. } => {
            Some(complaint(&format!("{key}.host_off"), "the hosts are agents, whose power no controller can cut: kill an agent's process"))
        }
        What::Driver { .. } => {
            Some(complaint(&format!("{key}.driver"), "the hosts are agents, and their hypervisors are in other processes"))
        }
        What::Kill { actor } if actor.starts_with("hosts/") => {
            let message = "the hosts are agents, each with a supervisor in its own process: kill the process";
            Some(complaint(&format!("{key}.kill.actor"), message))
        }
        What::Pause { actor, .. } if is_of_host(actor) => {
            let message = "the hosts are agents, and their actors are in other processes: stop an agent's process";
            Some(complaint(&format!("{key}.pause.actor"), message))
        }
        _ => None,
    }
}
