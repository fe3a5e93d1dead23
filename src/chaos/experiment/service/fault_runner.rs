//! The fault runner: the task behind `/ops/v1/chaos`. It makes faults happen, ends them, advances the experiment, and has all of it reported.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use super::fault_reporter::{FaultReporter, by_hand};
use super::fit::{fitted, unfit};
use super::loaded::Loaded;
use super::{Command, ExperimentView, HandFault, Refused, possible, refuse};
use crate::actors::root::Tree;
use crate::chaos::experiment::check;
use crate::chaos::experiment::fault::What;
use crate::chaos::experiment::injector::{Begun, Injector, Lasting};
use crate::chaos::experiment::plan::Call;
use crate::chaos::experiment::record::{Injected, Record};
use crate::chaos::experiment::scenario::{Scenario, Topology};
use crate::chaos::point::FaultPoints;
use crate::domain::counted::counted;
use crate::saga::world::CELL0;

/// The maximum number of ended injected faults that are kept for display.
const KEPT: usize = 200;
/// The interval of checks whether an experiment is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The interval of checks whether a fault that waits for its victim has happened.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// The time that a process to be killed waits for its notifier.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Longer than any service lives.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// A timed event.
enum End {
    /// The end of a fault that an operator injected.
    Hand(Uuid, Lasting),
    /// The end of the experiment's fault.
    Experiment(Call, Lasting),
    /// The beginning of the experiment's fault with this number.
    Begin(usize, What),
}

impl End {
    fn lasting(&self) -> Option<&Lasting> {
        match self {
            End::Hand(_, lasting) | End::Experiment(_, lasting) => Some(lasting),
            End::Begin(..) => None,
        }
    }

    /// True if the experiment cannot be over before this event. A fault that waits for one saga is dropped with that saga.
    fn keeps_the_experiment(&self) -> bool {
        match self {
            End::Hand(..) => false,
            End::Experiment(call, lasting) => lasting.for_ms.is_some() || call.saga.is_none(),
            End::Begin(..) => true,
        }
    }
}

/// The channels on which the fault runner hears of faults at steps.
pub(super) struct FaultChannels {
    called: mpsc::UnboundedReceiver<Call>,
    over: mpsc::UnboundedReceiver<Injected>,
}

pub(super) struct FaultRunner {
    tree: Tree,
    steps: FaultPoints,
    injector: Injector,
    reporter: FaultReporter,
    hand: Vec<HandFault>,
    ends: BTreeMap<(Instant, u64), End>,
    entered: u64,
    /// The senders for the experiment's faults at steps and for their ends.
    calls: mpsc::UnboundedSender<Call>,
    overs: mpsc::UnboundedSender<Injected>,
    loaded: Option<Loaded>,
    /// True if hosts are agents of their own.
    agents: bool,
    /// The last check whether the experiment is over.
    looked: Instant,
}

/// Ends the process as a kill does: nothing is reported, flushed or dropped.
fn die() {
    std::process::abort();
}

impl FaultRunner {
    pub(super) fn new(
        tree: Tree,
        steps: FaultPoints,
        injector: Injector,
        reporter: FaultReporter,
        agents: bool,
    ) -> (FaultRunner, FaultChannels) {
        let (calls, called) = mpsc::unbounded_channel();
        let (overs, over) = mpsc::unbounded_channel();
        let (hand, ends, looked) = (Vec::new(), BTreeMap::new(), Instant::now());
        let runner = FaultRunner { tree, steps, injector, reporter, hand, ends, entered: 0, calls, overs, loaded: None, agents, looked };
        (runner, FaultChannels { called, over })
    }

    /// Runs until the last handle is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut channels: FaultChannels) {
        loop {
            tokio::select! {
                biased;
                Some(call) = channels.called.recv() => self.called(call).await,
                Some(fault) = channels.over.recv() => self.reporter.over(&fault),
                command = commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => break,
                },
                () = tokio::time::sleep_until(self.wakes_at()) => {}
            }
            self.due().await;
            self.look().await;
        }
        self.end_all(|_| true).await;
        self.injector.heal().await;
    }

    fn wakes_at(&self) -> Instant {
        let now = Instant::now();
        let next = self.ends.keys().next().map_or(now + FOR_EVER, |(at, _)| *at);
        let experiment = self.loaded.as_ref().is_some_and(|loaded| !loaded.is_over());
        let lasts = self.ends.values().any(|end| end.lasting().is_some());
        let look = if lasts {
            ASK_EVERY
        } else if experiment {
            LOOK_EVERY
        } else {
            FOR_EVER
        };
        next.min(now + look)
    }

    async fn obey(&mut self, command: Command) {
        // The caller may be gone, but the command has its effect.
        match command {
            Command::Faults(reply) => drop(reply.send(Ok(self.hand.clone()))),
            Command::Inject(what, reply) => drop(reply.send(self.inject(what).await)),
            Command::End(id, reply) => drop(reply.send(self.end_hand(id).await)),
            Command::Load(scenario, until_stopped, reply) => drop(reply.send(self.load(*scenario, until_stopped))),
            Command::Show(reply) => drop(reply.send(self.view())),
            Command::Stop(reply) => {
                if let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.is_running()) {
                    loaded.obey_stop();
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
        refuse(&possible("what", &what, false, self.agents).into_iter().collect::<Vec<_>>())?;
        let id = self.tree.world.env.uuid();
        let beginning = self.injector.begin(&Call { place: 0, what: what.clone(), saga: None }).await.map_err(Refused::Conflict)?;
        let report = by_hand(id, what.to_string());
        self.reporter.begun(&report);
        let fault = HandFault { id, what, at: self.tree.world.env.now(), active: matches!(beginning, Begun::Lasts(_)) };
        match beginning {
            Begun::Lasts(lasting) => self.enter(lasting.for_ms, End::Hand(id, lasting)),
            Begun::Done | Begun::Kills => self.reporter.over(&report),
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
        let exists = self.hand.iter().any(|fault| fault.id == id);
        let entry = self.ends.iter().find(|(_, end)| matches!(end, End::Hand(of, _) if *of == id)).map(|(key, _)| *key);
        match entry.and_then(|key| self.ends.remove(&key)) {
            Some(end) => self.happens(end).await,
            None if exists => return Err(Refused::Conflict(format!("Fault {id} is over."))),
            None => return Err(Refused::NotFound(format!("Fault {id} could not be found."))),
        }
        Ok(())
    }

    fn load(&mut self, scenario: Scenario, until_stopped: bool) -> Result<ExperimentView, Refused> {
        if self.loaded.as_ref().is_some_and(|loaded| !loaded.is_over()) {
            return Err(Refused::Conflict("Another experiment is loaded, and it is not over.".into()));
        }
        let mut complaints = unfit(&scenario, self.agents);
        let (scenario, left_out) = fitted(scenario, self.topology());
        complaints.extend(check::complaints(&scenario));
        refuse(&complaints)?;
        let loaded = Loaded::begin(scenario, left_out, self.tree.clone(), self.steps.clone(), self.calls.clone(), self.overs.clone());
        for (number, fault, ms) in loaded.at_times() {
            self.enter(Some(ms), End::Begin(number, fault));
        }
        log::warn!("experiment {:?} is loaded: {}", loaded.title(), counted(loaded.faults(), "fault"));
        let view = loaded.view();
        self.loaded = Some(loaded.lasting(until_stopped));
        Ok(view)
    }

    /// Returns the running cloud's topology in a file's terms.
    fn topology(&self) -> Topology {
        let cells: Vec<_> = self.tree.cells.iter().filter(|cell| cell.name != CELL0).collect();
        let hosts = cells.iter().map(|cell| cell.hosts.hosts().len()).max().unwrap_or_default();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let conductors = Some(number(self.tree.conductor.workers()));
        Topology { cells: number(cells.len()), hosts_per_cell: number(hosts), conductors, ..Topology::default() }
    }

    /// Handles an experiment's fault that has happened at a step, or must happen now.
    async fn called(&mut self, call: Call) {
        let Some(loaded) = self.loaded.as_mut() else { return };
        loaded.handled += 1;
        let (record, place) = (loaded.record.clone(), call.place);
        // For a kill the runner is frozen already, so it must happen even if the experiment was stopped.
        if loaded.is_stopped() && call.what != What::Restart {
            return record.failed(place, "the experiment was stopped");
        }
        match self.injector.resolved(call).await {
            Ok(call) => {
                record.describe(place, call.what.to_string());
                self.begin(call, &record).await;
            }
            Err(why) => cannot(&record, place, &why),
        }
    }

    async fn begin(&mut self, call: Call, record: &Record) {
        let beginning = self.injector.begin(&call).await;
        let (Ok(beginning), Some(fault)) = (&beginning, record.at(call.place)) else {
            return beginning.err().into_iter().for_each(|why| cannot(record, call.place, &why));
        };
        self.reporter.begun(&fault);
        match beginning {
            Begun::Lasts(lasting) => self.enter(lasting.for_ms, End::Experiment(call, lasting.clone())),
            Begun::Done if call.ends_later() => {}
            Begun::Done => self.reporter.over(&fault),
            Begun::Kills => {
                self.reporter.until_recorded(LAST_WORDS).await;
                die();
            }
        }
    }

    /// Schedules an event after this many milliseconds; none for a fault that reports its own end.
    fn enter(&mut self, ms: Option<u64>, end: End) {
        self.entered += 1;
        let at = Instant::now() + ms.map_or(FOR_EVER, Duration::from_millis);
        self.ends.insert((at, self.entered), end);
    }

    /// Ends the faults whose time is over, or that have happened the given number of times.
    async fn due(&mut self) {
        let now = Instant::now();
        let injector = &self.injector;
        let is_due = |at: Instant, end: &End| at <= now || end.lasting().is_some_and(|lasting| !injector.goes_on(lasting));
        let due: Vec<_> = self.ends.iter().filter(|((at, _), end)| is_due(*at, end)).map(|(key, _)| *key).collect();
        for key in due {
            if let Some(end) = self.ends.remove(&key) {
                self.happens(end).await;
            }
        }
    }

    async fn happens(&mut self, end: End) {
        match end {
            End::Hand(id, lasting) => {
                self.injector.over(&lasting).await;
                self.reporter.over(&by_hand(id, lasting.what.to_string()));
                self.hand.iter_mut().filter(|fault| fault.id == id).for_each(|fault| fault.active = false);
            }
            End::Experiment(call, lasting) => {
                self.injector.over(&lasting).await;
                let Some(loaded) = &self.loaded else { return };
                loaded.record.ended(call.place, loaded.elapsed_ms());
                loaded.record.at(call.place).iter().for_each(|fault| self.reporter.over(fault));
            }
            End::Begin(number, what) => {
                let Some(loaded) = self.loaded.as_mut() else { return };
                loaded.handled += 1;
                let (record, at_ms) = (loaded.record.clone(), loaded.elapsed_ms());
                let injected = Injected { at_ms, fault: number, what: what.to_string(), ..Injected::default() };
                let place = record.add(injected);
                self.begin(Call { place, what, saga: None }, &record).await;
            }
        }
    }

    /// Ends these lasting faults. Scheduled ones do not begin.
    async fn end_all(&mut self, which: impl Fn(&End) -> bool) {
        let keys: Vec<_> = self.ends.iter().filter(|(_, end)| which(end)).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(end @ (End::Experiment(..) | End::Hand(..))) = self.ends.remove(&key) {
                self.happens(end).await;
            }
        }
    }

    /// Ends the experiment's faults. Faults by operators continue.
    async fn heal_experiment(&mut self) {
        self.end_all(|end| !matches!(end, End::Hand(..))).await;
    }

    /// Advances the experiment now and then. A check reads all journals, so it does not follow each call.
    async fn look(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let lasting = self.ends.values().any(End::keeps_the_experiment);
        let Some(loaded) = self.loaded.as_mut() else { return };
        if loaded.is_running() && !loaded.wants_to_end(lasting) {
            return;
        }
        if loaded.is_stopped() {
            self.heal_experiment().await;
        }
        let Some(loaded) = self.loaded.as_mut() else { return };
        loaded.conclude().await;
        if loaded.is_over() {
            self.heal_experiment().await;
        }
    }
}

fn cannot(record: &Record, place: usize, why: &str) {
    log::warn!("a fault cannot happen: {why}");
    record.failed(place, why);
}
