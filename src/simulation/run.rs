//! A run from its beginning to its audit, simulated or live: the timeline of users and faults, the conditions for giving up, healing, and
//! quiet.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::SimulationError;
use super::trace::Trace;
use super::travellers::{travel, travellers};
use super::users::{Act, Reach, Users, acts, perform};
use super::virtual_env::RunClock;
use super::watch::Watch;
use crate::actors::root::Tree;
use crate::chaos::audit;
use crate::chaos::experiment::fault::{PlannedFault, What, When};
use crate::chaos::experiment::host_network::HostNetwork;
use crate::chaos::experiment::injector::{Begun, Injector, Lasting};
use crate::chaos::experiment::plan::{Call, Plan};
use crate::chaos::experiment::record::{Injected, Record};
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::seams::Seams;
use crate::domain::counted::counted;
use crate::domain::debt::Debt;
use crate::domain::reason::Reason;

/// The time after the last act before all faults are healed.
pub(super) const SETTLING: Duration = Duration::from_secs(5);
/// The maximum time for journeys before all faults are healed. Longer journeys end after that.
pub(super) const JOURNEYS_WITHIN: Duration = Duration::from_secs(900);
/// The number of checks that must all find quiet, and the time between two: together longer than the period of updating records from
/// guests.
const CALM_LOOKS: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The interval of checks whether to give up, and of reports.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A timed event.
enum Event {
    Act(Act),
    /// The beginning of the fault with this number.
    Fault(usize, What),
    /// The end of the fault at this index of the record.
    Over(usize, Lasting),
    /// A check and a report.
    RunRound,
}

/// A run of a simulation.
pub struct Run {
    pub scenario: Scenario,
    pub clock: Arc<RunClock>,
    pub trace: Trace,
    pub watch: Arc<Watch>,
    pub seams: Seams,
    pub users: Rc<Users>,
    pub record: Record,
    /// The reason why the run gave up.
    pub aborted: Option<String>,
    plan: Arc<Plan>,
    /// By time and order of entry.
    timeline: BTreeMap<(u64, u64), Event>,
    entered: u64,
    calls: mpsc::UnboundedReceiver<Call>,
}

/// The end of a life of the controllers.
pub enum RunEnd {
    /// Another life follows.
    Killed,
    Over(Box<audit::Report>),
}

impl Run {
    /// Makes a run with all events entered and nothing begun.
    pub fn new(seed: u64, scenario: &Scenario, faults: &[PlannedFault], clock: Arc<RunClock>, trace: Trace, watch: Arc<Watch>) -> Run {
        let (elsewhere, calls) = mpsc::unbounded_channel();
        let record = Record::default();
        let plan = Arc::new(Plan::new(watch.clone(), record.clone(), faults, elsewhere));
        let seams = Seams::new(HostNetwork::new(watch.clone(), seed, scenario.topology.max_delay_ms));
        seams.steps.arm(Some(plan.clone()));
        let users = Rc::new(Users { travellers: travellers(&scenario.workload.journeys), ..Users::default() });
        let (scenario, timeline) = (scenario.clone(), BTreeMap::new());
        let mut run = Run { scenario, clock, trace, watch, seams, users, record, aborted: None, plan, timeline, entered: 0, calls };
        for act in acts(seed, run.scenario.workload.actions(), run.scenario.workload.seconds) {
            run.enter(act.at_ms, Event::Act(act));
        }
        for (number, fault) in faults.iter().enumerate() {
            if let When::At(ms) = fault.when {
                (0..u64::from(fault.times)).for_each(|nth| run.enter(ms + nth * fault.every_ms, Event::Fault(number, fault.what.clone())));
            }
        }
        run
    }

    fn enter(&mut self, at_ms: u64, event: Event) {
        self.entered += 1;
        self.timeline.insert((at_ms, self.entered), event);
    }

    /// Runs one life of the controllers, until its death or the audit.
    pub async fn live(&mut self, reach: &Reach, tree: &Tree, injector: &Injector) -> Result<RunEnd, SimulationError> {
        self.trace.tell("the controller runs");
        for traveller in self.users.travellers.iter().filter(|traveller| !traveller.is_over()) {
            let (users, reach, traveller) = (self.users.clone(), reach.clone(), traveller.clone());
            let begins = self.clock.instant(traveller.begins_ms());
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(begins).await;
                travel(users, reach, traveller).await;
            });
        }
        if !self.timeline.values().any(|event| matches!(event, Event::RunRound)) {
            self.enter(self.clock.elapsed_ms(), Event::RunRound);
        }
        let mut rest = tokio::time::Instant::now() + SETTLING;
        loop {
            let next = self.timeline.keys().next().map(|(at, _)| self.clock.instant(*at));
            if self.is_busy() {
                rest = tokio::time::Instant::now() + SETTLING;
            } else if tokio::time::Instant::now() >= rest {
                break;
            }
            tokio::select! {
                biased;
                Some(call) = self.calls.recv() => {
                    if self.begin(call, injector).await {
                        return Ok(RunEnd::Killed);
                    }
                }
                reason = tree.failed() => {
                    self.trace.tell(format!("the process ends by itself: {reason}"));
                    return Ok(RunEnd::Killed);
                }
                () = tokio::time::sleep_until(next.unwrap_or(rest).min(rest)) => {
                    if self.happens_next((reach, tree), injector).await {
                        return Ok(RunEnd::Killed);
                    }
                }
            }
            if self.aborted.is_some() {
                break;
            }
        }
        self.heal(injector).await;
        self.quiet(reach, tree).await
    }

    /// True while an event is to come, or a traveller is under way.
    fn is_busy(&self) -> bool {
        let to_come = self.timeline.values().any(|event| !matches!(event, Event::RunRound));
        let travelling = self.users.travellers.iter().any(|traveller| !traveller.is_over());
        to_come || (travelling && Duration::from_millis(self.clock.elapsed_ms()) < JOURNEYS_WITHIN)
    }

    /// Performs the event that is due. True if the controller dies of it.
    async fn happens_next(&mut self, (reach, tree): (&Reach, &Tree), injector: &Injector) -> bool {
        let due = self.timeline.first_key_value().is_some_and(|((at, _), _)| *at <= self.clock.elapsed_ms());
        let Some((_, event)) = self.timeline.pop_first().filter(|_| due) else { return false };
        match event {
            Event::Act(act) => {
                drop(tokio::task::spawn_local(perform(self.users.clone(), reach.clone(), tree.clone(), self.watch.clone(), act)));
            }
            Event::Over(place, lasting) => {
                self.trace.tell(format!("over   {}", lasting.what));
                self.record.ended(place, self.clock.elapsed_ms());
                injector.over(&lasting).await;
            }
            Event::Fault(number, what) => {
                self.trace.tell(format!("FAULT  {what}"));
                let at_ms = self.clock.elapsed_ms();
                let injected = Injected { at_ms, fault: number, what: what.to_string(), ..Injected::default() };
                let place = self.record.add(injected);
                return self.begin(Call { place, what, saga: None }, injector).await;
            }
            Event::RunRound => {
                self.aborted = self.gives_up(reach).await;
                if let Some(why) = &self.aborted {
                    self.trace.tell(format!("the experiment gives up: {why}"));
                }
                self.enter(self.clock.elapsed_ms() + u64::try_from(ASK_EVERY.as_millis()).unwrap_or(u64::MAX), Event::RunRound);
            }
        }
        false
    }

    /// Makes a fault happen. True if the controller dies of it.
    async fn begin(&mut self, call: Call, injector: &Injector) -> bool {
        let place = call.place;
        let begun = match injector.resolved(call).await {
            Ok(call) => {
                self.record.describe(place, call.what.to_string());
                injector.begin(&call).await
            }
            Err(why) => Err(why),
        };
        match begun {
            Ok(Begun::Done) => false,
            Ok(Begun::Lasts(lasting)) => {
                if let Some(ms) = lasting.for_ms {
                    self.enter(self.clock.elapsed_ms() + ms, Event::Over(place, lasting));
                }
                false
            }
            Ok(Begun::Kills) => {
                self.trace.tell("the controller is killed");
                true
            }
            Err(why) => {
                self.trace.tell(format!("it cannot happen: {why}"));
                self.record.failed(place, &why);
                false
            }
        }
    }

    /// Returns the reason for giving up now.
    async fn gives_up(&self, reach: &Reach) -> Option<String> {
        let (abort, seconds) = (&self.scenario.abort, self.clock.elapsed_ms() / 1000);
        let (violations, failed) = (self.watch.violations().len(), self.users.failed_answers());
        if abort.violations.is_some_and(|most| violations >= most) {
            return Some(format!("the watch found {}", counted(violations, "violation")));
        }
        if abort.failed_answers.is_some_and(|most| failed >= most) {
            return Some(format!("{failed} answers failed"));
        }
        if abort.after_seconds.is_some_and(|most| seconds >= most) {
            return Some(format!("{seconds} s have passed"));
        }
        let most = abort.servers_in_error?;
        let in_error = self.users.servers_in_error(reach).await;
        (in_error >= most).then(|| format!("in ERROR: {}", counted(in_error, "server")))
    }

    async fn heal(&mut self, injector: &Injector) {
        self.trace.tell("everything is healed");
        if self.aborted.is_some() {
            self.users.stopped.set(true);
        }
        self.plan.heal();
        injector.heal().await;
        for (_, event) in std::mem::take(&mut self.timeline) {
            if let Event::Over(place, _) = event {
                self.record.ended(place, self.clock.elapsed_ms());
            }
        }
    }

    /// Returns the guests that their owner's host has not been allowed to run yet: host and server.
    async fn interrupted_guests(&self, tree: &Tree) -> Result<Vec<(String, uuid::Uuid)>, SimulationError> {
        let mut waiting = Vec::new();
        for (host, server) in self.watch.interrupted_guests() {
            let owner = tree.world.operations.ownership(server).await?.and_then(|row| row.owner);
            if owner.is_some_and(|(_, owner)| owner == host) {
                waiting.push((host, server));
            }
        }
        Ok(waiting)
    }

    /// Waits until nothing is at work, and then audits.
    async fn quiet(&self, reach: &Reach, tree: &Tree) -> Result<RunEnd, SimulationError> {
        let world = &tree.world;
        let within = Duration::from_secs(self.scenario.expect.quiet_within_seconds);
        let end = tokio::time::Instant::now() + within;
        let mut calm = 0;
        while calm < CALM_LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let (held, debts) = (world.operations.held_servers().await?, world.operations.debts(None).await?);
            let queued = world.api.count_queued_deletes().await?;
            let waiting = *self.users.waiting.borrow();
            let down = reach.hosts.iter().find(|(cell, host)| !tree.cell(cell).is_some_and(|cell| cell.hosts.standing(host).is_up()));
            let interrupted = self.interrupted_guests(tree).await?;
            let is_calm = held.is_empty() && debts.is_empty() && queued == 0 && waiting == 0 && down.is_none() && interrupted.is_empty();
            calm = if is_calm { calm + 1 } else { 0 };
            // Once a check has found quiet, the checks continue past the time limit.
            if calm == 0 && tokio::time::Instant::now() >= end {
                let owed = |debt: &Debt| format!("{} {} of {}: {}", debt.side, debt.step, debt.server, Reason::read(&debt.reason));
                let owed: Vec<String> = debts.iter().map(owed).collect();
                let message = format!(
                    "not quiet {} s after the last fault: held {held:?}, owed {owed:?}, {queued} deletes queued, {waiting} requests wait, down {down:?}, interrupted {interrupted:?}",
                    within.as_secs()
                );
                self.watch.add_violation("I11", "the cloud".to_owned(), message);
                break;
            }
        }
        self.users.check_that_accepted_servers_exist(reach, &self.watch).await;
        let report = audit::thorough_audit(world).await?;
        for violation in &report.violations {
            self.trace.tell(format!("AUDIT  {violation}"));
        }
        Ok(RunEnd::Over(Box::new(report)))
    }
}
