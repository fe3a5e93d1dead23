//! Faults against a running service, and an experiment loaded into it (`/ops/v1/chaos`): one task owns both, takes commands, ends what
//! lasts, and tells of every fault in the log and in the notifications.

mod fit;
mod keeper;
mod loaded;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use self::keeper::Keeper;
use self::told::Told;
use super::Witness;
use super::check::Complaint;
use super::fault::What;
use super::injector::Injector;
use super::post::Post;
use super::record::Injected;
use super::scenario::Scenario;
use super::verdict::Verdict;
use crate::actors::root::Tree;
use crate::db::Db;

/// Commands that wait at once; past it a caller is told to come back.
const QUEUE: usize = 64;

/// A fault that was put in by hand.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HandFault {
    pub id: Uuid,
    pub what: What,
    pub at: chrono::DateTime<chrono::Utc>,
    /// It goes on.
    pub active: bool,
}

/// An experiment as its operator sees it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentView {
    pub title: String,
    /// `running`; `ending`, when its faults are over and what they met comes to an end; `over`.
    pub state: &'static str,
    pub began_at: chrono::DateTime<chrono::Utc>,
    /// The parts of the file that the service has replaced by its own or does not judge, in sentences that begin with the key.
    pub left_out: Vec<String>,
    pub injected: Vec<Injected>,
    /// When it is over.
    pub verdict: Option<Verdict>,
}

/// Nobody looks at the messages of a service.
pub struct Unwatched;

impl Witness for Unwatched {
    fn elapsed_ms(&self) -> u64 {
        0
    }

    fn note(&self, line: String) {
        log::debug!("{line}");
    }
}

/// Why a command is not obeyed.
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
    Load(Box<Scenario>, Reply<ExperimentView>),
    Show(Reply<ExperimentView>),
    Stop(Reply<ExperimentView>),
}

/// How the API reaches the task.
#[derive(Clone)]
pub struct Chaos {
    commands: mpsc::Sender<Command>,
    tree: Tree,
}

/// What the task is made of.
pub struct Parts {
    pub tree: Tree,
    /// By the names that faults have for them.
    pub databases: BTreeMap<String, Db>,
    /// What stands between controllers and hosts.
    pub post: Arc<Post>,
}

/// Starts the task on this thread's runtime; it ends with its last handle.
pub fn start(parts: Parts) -> Chaos {
    let (commands, asked) = mpsc::channel(QUEUE);
    let tree = parts.tree.clone();
    let injector = Injector::new(tree.clone(), parts.databases, parts.post, None);
    let (keeper, ears) = Keeper::new(tree.clone(), injector, Told::new(tree.notifier.clone()));
    tokio::spawn(keeper.keep(asked, ears));
    Chaos { commands, tree }
}

impl Chaos {
    /// The tree whose actors may be killed and paused.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Faults put in by hand, oldest first.
    pub async fn faults(&self) -> Result<Vec<HandFault>, Refused> {
        self.ask(Command::Faults).await
    }

    /// Makes a fault happen now.
    pub async fn inject(&self, what: What) -> Result<HandFault, Refused> {
        self.ask(|reply| Command::Inject(what, reply)).await
    }

    /// Ends a fault that was put in by hand.
    pub async fn end(&self, id: Uuid) -> Result<(), Refused> {
        self.ask(|reply| Command::End(id, reply)).await
    }

    /// Loads an experiment and begins it. A conflict while another one is not over.
    pub async fn load(&self, scenario: Scenario) -> Result<ExperimentView, Refused> {
        self.ask(|reply| Command::Load(Box::new(scenario), reply)).await
    }

    /// The experiment that was loaded last.
    pub async fn show(&self) -> Result<ExperimentView, Refused> {
        self.ask(Command::Show).await
    }

    /// Ends the experiment's faults; its verdict follows when what they met has come to an end.
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
    let told: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    if told.is_empty() { Ok(()) } else { Err(Refused::Invalid(told.join("; "))) }
}

fn complaint(key: &str, message: &str) -> Complaint {
    Complaint { place: None, key: key.to_owned(), message: message.to_owned() }
}

/// Why a fault cannot be done to a running service.
fn possible(key: &str, what: &What, at_step: bool) -> Option<Complaint> {
    match what {
        What::Restart if !at_step => Some(complaint(key, "a service ends itself only at a step: kill its process")),
        What::Clock { .. } => Some(complaint(key, "the clock of a running service does not jump")),
        What::Step(_) if !at_step => Some(complaint(key, "it happens at a step: load an experiment that says which")),
        _ => None,
    }
}
