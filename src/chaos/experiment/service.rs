//! Faults against a running service, and an experiment loaded into it (`/ops/v1/chaos`): one task owns both, takes commands, ends what
//! lasts, and tells of every fault in the log and in the notifications.

mod loaded;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use self::loaded::Loaded;
use self::told::Told;
use super::Witness;
use super::check::{self, Complaint};
use super::fault::{PlannedFault, What, When};
use super::injector::{Begun, Injector};
use super::plan::Call;
use super::post::Post;
use super::record::{Injected, Record};
use super::scenario::{Scenario, Topology, Workload};
use super::verdict::Verdict;
use crate::actors::root::Tree;
use crate::db::Db;
use crate::saga::world::CELL0;

/// Commands that wait at once; past it a caller is told to come back.
const QUEUE: usize = 64;
/// Faults that were put in by hand and are over, kept to be seen.
const KEPT: usize = 200;
/// How often it is asked whether an experiment is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
    let told = Told::new(tree.world.env.clone(), tree.notifier.clone());
    let injector = Injector::new(tree.clone(), parts.databases, parts.post, None);
    let (calls, called) = mpsc::unbounded_channel();
    let keeper = Keeper { tree: tree.clone(), injector, told, hand: Vec::new(), ends: BTreeMap::new(), entered: 0, calls, loaded: None };
    tokio::spawn(keeper.keep(asked, called));
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

/// Something whose end has a time.
enum End {
    /// Of a fault by hand.
    Hand(Uuid, What),
    /// Of the experiment's fault at a place of its record.
    Experiment(usize, What),
    /// The experiment's fault of this number begins.
    Begin(usize, What),
}

struct Keeper {
    tree: Tree,
    injector: Injector,
    told: Told,
    hand: Vec<HandFault>,
    ends: BTreeMap<(Instant, u64), End>,
    entered: u64,
    /// Where an experiment's faults at steps call.
    calls: mpsc::UnboundedSender<Call>,
    loaded: Option<Loaded>,
}

impl Keeper {
    async fn keep(mut self, mut asked: mpsc::Receiver<Command>, mut called: mpsc::UnboundedReceiver<Call>) {
        loop {
            let next = self.ends.keys().next().map(|(at, _)| *at);
            let look = Instant::now() + LOOK_EVERY;
            let wake = match (next, self.loaded.as_ref().is_some_and(|loaded| !loaded.is_over())) {
                (Some(next), true) => next.min(look),
                (Some(next), false) => next,
                (None, true) => look,
                (None, false) => look + LOOK_EVERY * 1000,
            };
            tokio::select! {
                biased;
                Some(call) = called.recv() => self.called(call).await,
                command = asked.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => break,
                },
                () = tokio::time::sleep_until(wake) => {}
            }
            self.due().await;
            self.look().await;
        }
        self.injector.heal().await;
    }

    async fn obey(&mut self, command: Command) {
        // Whoever asked may be gone: what was done stands.
        match command {
            Command::Faults(reply) => drop(reply.send(Ok(self.hand.clone()))),
            Command::Inject(what, reply) => drop(reply.send(self.inject(what).await)),
            Command::End(id, reply) => drop(reply.send(self.end_hand(id).await)),
            Command::Load(scenario, reply) => drop(reply.send(self.load(*scenario))),
            Command::Show(reply) => drop(reply.send(self.view())),
            Command::Stop(reply) => {
                if let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.is_running()) {
                    loaded.stop("its operator stopped it");
                    self.heal_experiment().await;
                }
                drop(reply.send(self.view()));
            }
        }
    }

    fn view(&self) -> Result<ExperimentView, Refused> {
        self.loaded.as_ref().map(Loaded::view).ok_or_else(|| Refused::NotFound("No experiment was loaded.".into()))
    }

    async fn inject(&mut self, what: What) -> Result<HandFault, Refused> {
        refuse(&possible("what", &what, false).into_iter().collect::<Vec<_>>())?;
        let id = self.tree.world.env.uuid();
        let begun = self.injector.begin(&Call { place: 0, what: what.clone(), saga: None }).await.map_err(Refused::Conflict)?;
        self.told.begun(id, &what.to_string(), None).await;
        let fault = HandFault { id, what: what.clone(), at: self.tree.world.env.now(), active: matches!(begun, Begun::Lasts(..)) };
        if let Begun::Lasts(ms, what) = begun {
            self.enter(ms, End::Hand(id, what));
        }
        self.hand.push(fault.clone());
        if self.hand.len() > KEPT
            && let Some(oldest) = self.hand.iter().position(|fault| !fault.active)
        {
            self.hand.remove(oldest);
        }
        Ok(fault)
    }

    async fn end_hand(&mut self, id: Uuid) -> Result<(), Refused> {
        let known = self.hand.iter().any(|fault| fault.id == id);
        let entry = self.ends.iter().find(|(_, end)| matches!(end, End::Hand(of, _) if *of == id)).map(|(key, _)| *key);
        match entry.and_then(|key| self.ends.remove(&key)) {
            Some(end) => self.happens(end).await,
            None if known => return Err(Refused::Conflict(format!("Fault {id} is over."))),
            None => return Err(Refused::NotFound(format!("Fault {id} could not be found."))),
        }
        Ok(())
    }

    fn load(&mut self, mut scenario: Scenario) -> Result<ExperimentView, Refused> {
        if self.loaded.as_ref().is_some_and(|loaded| !loaded.is_over()) {
            return Err(Refused::Conflict("Another experiment is loaded, and it is not over.".into()));
        }
        let mut complaints = unfit(&scenario);
        scenario.topology = self.topology();
        complaints.extend(check::complaints(&scenario));
        refuse(&complaints)?;
        self.told.next_experiment(&self.tree.world.env);
        let loaded = Loaded::begin(scenario, self.tree.clone(), self.calls.clone());
        for (number, fault, ms) in loaded.at_times() {
            self.enter(ms, End::Begin(number, fault));
        }
        log::warn!("experiment {:?} is loaded: {} faults", loaded.title(), loaded.faults());
        let view = loaded.view();
        self.loaded = Some(loaded);
        Ok(view)
    }

    /// The cloud that runs, in the terms of a file.
    fn topology(&self) -> Topology {
        let cells: Vec<_> = self.tree.cells.iter().filter(|cell| cell.name != CELL0).collect();
        let hosts = cells.iter().map(|cell| cell.hosts.hosts().len()).max().unwrap_or_default();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let conductors = Some(number(self.tree.conductor.workers()));
        Topology { cells: number(cells.len()), hosts_per_cell: number(hosts), conductors, ..Topology::default() }
    }

    /// An experiment's fault at a step has happened, or is to.
    async fn called(&mut self, call: Call) {
        let Some(loaded) = self.loaded.as_mut() else { return };
        loaded.handled += 1;
        let (record, place) = (loaded.record.clone(), call.place);
        if loaded.is_stopped() {
            return record.failed(place, "the experiment was stopped");
        }
        let call = match self.injector.resolved(call).await {
            Ok(call) => call,
            Err(why) => return record.failed(place, &why),
        };
        record.was(place, call.what.to_string());
        if let Some(fault) = record.all().get(call.place) {
            let id = self.told.id_of(call.place);
            self.told.begun(id, &fault.what, Some(fault)).await;
        }
        self.begin(call, &record).await;
    }

    async fn begin(&mut self, call: Call, record: &Record) {
        match self.injector.begin(&call).await {
            Ok(Begun::Lasts(ms, what)) => self.enter(ms, End::Experiment(call.place, what)),
            Ok(Begun::Done) => {}
            Ok(Begun::Kills) => record.failed(call.place, "a service does not end itself"),
            Err(why) => {
                log::warn!("a fault cannot happen: {why}");
                record.failed(call.place, &why);
            }
        }
    }

    fn enter(&mut self, ms: u64, end: End) {
        self.entered += 1;
        self.ends.insert((Instant::now() + Duration::from_millis(ms), self.entered), end);
    }

    async fn due(&mut self) {
        while self.ends.first_key_value().is_some_and(|((at, _), _)| *at <= Instant::now()) {
            if let Some((_, end)) = self.ends.pop_first() {
                self.happens(end).await;
            }
        }
    }

    async fn happens(&mut self, end: End) {
        match end {
            End::Hand(id, what) => {
                self.injector.over(&what).await;
                self.told.over(id, &what.to_string()).await;
                self.hand.iter_mut().filter(|fault| fault.id == id).for_each(|fault| fault.active = false);
            }
            End::Experiment(place, what) => {
                self.injector.over(&what).await;
                self.told.over(self.told.id_of(place), &what.to_string()).await;
                if let Some(loaded) = &self.loaded {
                    loaded.record.over(place, loaded.elapsed_ms());
                }
            }
            End::Begin(number, what) => {
                let Some(loaded) = self.loaded.as_mut() else { return };
                loaded.handled += 1;
                let (record, at_ms) = (loaded.record.clone(), loaded.elapsed_ms());
                let injected = Injected { at_ms, fault: number, what: what.to_string(), ..Injected::default() };
                let place = record.add(injected);
                self.told.begun(self.told.id_of(place), &what.to_string(), None).await;
                self.begin(Call { place, what, saga: None }, &record).await;
            }
        }
    }

    /// Ends what the experiment began; faults by hand go on.
    async fn heal_experiment(&mut self) {
        let of_experiment = |end: &End| matches!(end, End::Experiment(..) | End::Begin(..));
        let keys: Vec<_> = self.ends.iter().filter(|(_, end)| of_experiment(end)).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(end @ End::Experiment(..)) = self.ends.remove(&key) {
                self.happens(end).await;
            }
        }
    }

    /// Goes on with the experiment when it is time.
    async fn look(&mut self) {
        let lasting = self.ends.values().any(|end| matches!(end, End::Experiment(..) | End::Begin(..)));
        let Some(loaded) = self.loaded.as_mut() else { return };
        if loaded.is_running() {
            if !loaded.wants_to_end(lasting) {
                return;
            }
            self.heal_experiment().await;
        }
        if let Some(loaded) = self.loaded.as_mut() {
            loaded.conclude().await;
        }
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

/// What a file may say that a running service cannot do.
fn unfit(scenario: &Scenario) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if scenario.topology != Topology::default() {
        complaints.push(complaint("topology", "a running service has its own"));
    }
    if scenario.workload != Workload::default() {
        complaints.push(complaint("workload", "the users of a running service are its own"));
    }
    let abort = &scenario.abort;
    if abort.violations.is_some() || abort.failed_answers.is_some() || abort.servers_in_error.is_some() {
        complaints.push(complaint("abort", "in a running service there is only `after_seconds`"));
    }
    let faults = scenario.faults.iter().flatten().enumerate();
    let impossible = |(number, fault): (usize, &PlannedFault)| {
        possible(&format!("faults[{number}].what"), &fault.what, matches!(fault.when, When::Step(_)))
    };
    complaints.extend(faults.filter_map(impossible));
    complaints
}
