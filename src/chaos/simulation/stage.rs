//! A run from its beginning to its verdict: lives of the controllers, the timeline of users and faults, healing, quiet, audit.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::cloud::{self, Setting};
use super::fault::{PlannedFault, What, When};
use super::plan::Plan;
use super::post::Post;
use super::scenario::Scenario;
use super::trace::Trace;
use super::users::{Act, Reach, Users, acts, perform};
use super::virtual_env::{VirtualClock, env};
use super::watch::Watch;
use super::{Options, Outcome, SimulationError};
use crate::actors::root::Tree;
use crate::actors::supervision::Shutdown;
use crate::bootstrap::Cloud;
use crate::chaos::audit;
use crate::chaos::point::FaultPoints;
use crate::db::api::operations::Operations;
use crate::db::{Db, Outage};

/// What is left to itself after the last act, before everything is healed.
const SETTLING: Duration = Duration::from_secs(5);
/// After healing, all must be quiet within this time.
const QUIET_WITHIN: Duration = Duration::from_secs(600);
/// Looks that must find all quiet, and the time between two: together longer than the period in which records follow guests.
const CALM_LOOKS: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Something that happens at a time.
enum Event {
    Act(Act),
    Fault(What),
    /// The end of a fault.
    Over(What),
}

/// One run.
pub struct Stage {
    scenario: Scenario,
    clock: Arc<VirtualClock>,
    trace: Trace,
    cloud: Cloud,
    watch: Arc<Watch>,
    post: Arc<Post>,
    plan: Arc<Plan>,
    points: FaultPoints,
    users: Rc<Users>,
    image: uuid::Uuid,
    /// By time and order of entry.
    timeline: BTreeMap<(u64, u64), Event>,
    entered: u64,
    calls: mpsc::UnboundedReceiver<What>,
    _folder: tempfile::TempDir,
}

enum Life {
    Killed,
    Over(Box<audit::Report>),
}

impl Stage {
    /// Everything opened, nothing running.
    pub async fn open(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: Options) -> Result<Stage, SimulationError> {
        let folder = cloud::folder()?;
        let clock = Arc::new(VirtualClock::new());
        let trace = Trace::new(clock.clone(), options.whole_trace);
        let cloud = cloud::open(seed, folder.path(), scenario, env(seed, clock.clone())).await?;
        let images =
            cloud.services.images.list(&Default::default(), Default::default()).await.map_err(crate::bootstrap::BootstrapError::from)?;
        let image = images.iter().find(|image| image.name.as_deref() == Some("tiny")).map(|image| image.id).unwrap_or_default();
        let watch = Arc::new(Watch::new(trace.clone(), cloud.api.db(), cloud.services.placement.db()));
        let post = Arc::new(Post::new(trace.clone(), watch.clone(), seed, scenario.max_delay_ms));
        let (elsewhere, calls) = mpsc::unbounded_channel();
        let plan = Arc::new(Plan::new(trace.clone(), watch.clone(), faults, elsewhere));
        let points = FaultPoints::default();
        points.arm(Some(plan.clone()));
        let (scenario, users) = (scenario.clone(), Rc::new(Users::default()));
        let timeline = BTreeMap::new();
        let mut stage =
            Stage { scenario, clock, trace, cloud, watch, post, plan, points, users, image, timeline, entered: 0, calls, _folder: folder };
        for act in acts(seed, stage.scenario.actions, stage.scenario.seconds) {
            stage.enter(act.at_ms, Event::Act(act));
        }
        for fault in faults {
            if let When::At(ms) = fault.when {
                stage.enter(ms, Event::Fault(fault.what.clone()));
            }
        }
        Ok(stage)
    }

    fn enter(&mut self, at_ms: u64, event: Event) {
        self.entered += 1;
        self.timeline.insert((at_ms, self.entered), event);
    }

    /// Runs to the verdict.
    pub async fn run(mut self, seed: u64) -> Result<Outcome, SimulationError> {
        let mut lives = 0;
        let report = loop {
            lives += 1;
            // Everything that a life spawns is in here, and is gone with it as with a killed process.
            let process = LocalSet::new();
            let life = process.run_until(self.live()).await;
            drop(process);
            match life? {
                Life::Killed => self.trace.note("the controller is killed"),
                Life::Over(report) => break report,
            }
        };
        let mut violations = self.watch.violations();
        violations.extend(report.violations.iter().cloned());
        let records = self.cloud.api.db().named("report");
        let sagas = Operations::new(records).audit_records().await?.sagas;
        for saga in &sagas {
            self.trace.note(format!("saga   {} {} {} ended {}", saga.id, saga.kind, saga.server, saga.state));
        }
        let moves = sagas.iter().filter(|saga| saga.kind == "resize").count();
        let moved = sagas.iter().filter(|saga| saga.kind == "resize" && saga.state == "done").count();
        Ok(Outcome {
            seed,
            hash: self.trace.hash(),
            lines: self.trace.len(),
            trace: self.trace.lines(),
            violations,
            unreachable: report.checked.unreachable.clone(),
            lives,
            sagas: sagas.len(),
            moves,
            moved,
            answers: self.users.answers.borrow().clone(),
            virtual_ms: self.clock.elapsed_ms(),
        })
    }

    async fn live(&mut self) -> Result<Life, SimulationError> {
        let setting = Setting {
            cloud: &self.cloud,
            scenario: &self.scenario,
            faults: self.points.clone(),
            post: self.post.clone(),
            watch: self.watch.clone(),
            trace: self.trace.clone(),
            image: self.image,
        };
        let reach = setting.begin().await?;
        self.trace.note("the controller runs");
        let resting_at = |stage: &Stage| stage.timeline.keys().next().map(|(at, _)| stage.clock.instant(*at));
        let mut rest = tokio::time::Instant::now() + SETTLING;
        loop {
            let next = resting_at(self);
            if next.is_some() {
                rest = tokio::time::Instant::now() + SETTLING;
            }
            let until = next.unwrap_or(rest);
            tokio::select! {
                biased;
                Some(what) = self.calls.recv() => {
                    if self.begin(what, &reach).await {
                        return Ok(Life::Killed);
                    }
                }
                reason = reach.tree.failed() => {
                    self.trace.note(format!("the process ends by itself: {reason}"));
                    return Ok(Life::Killed);
                }
                () = tokio::time::sleep_until(until) => {
                    let Some(((_, _), event)) = self.timeline.pop_first() else { break };
                    match event {
                        Event::Act(act) => drop(tokio::task::spawn_local(perform(self.users.clone(), reach.clone(), self.watch.clone(), act))),
                        Event::Over(what) => self.over(&what, &reach).await,
                        Event::Fault(what) => {
                            self.trace.note(format!("FAULT  {what:?}"));
                            if self.begin(what, &reach).await {
                                return Ok(Life::Killed);
                            }
                        }
                    }
                }
            }
        }
        self.heal(&reach).await;
        self.quiet(&reach).await
    }

    /// Makes a fault happen; true when the controller dies of it.
    async fn begin(&mut self, what: What, reach: &Reach) -> bool {
        let lasts = match &what {
            What::HostOff { cell, host, resume_guests, for_ms } => {
                if let Some(cell) = reach.tree.cell(cell).cloned() {
                    let (host, resume) = (host.clone(), *resume_guests);
                    // It is fine when the host is off already.
                    tokio::task::spawn_local(async move { drop(cell.power_off_host(&host, resume).await) });
                }
                Some(*for_ms)
            }
            What::HostCrash { cell, host } => {
                if let Some(cell) = reach.tree.cell(cell) {
                    drop(cell.hosts.crash(host));
                }
                None
            }
            What::Driver { host, operation, times } => {
                if let Some(driver) = self.watch.driver(host) {
                    driver.fail_next(*operation, *times);
                }
                None
            }
            What::Database { name, outage, calls, for_ms } => {
                if let Some(db) = self.database(name) {
                    db.set_outage_for(*outage, *calls);
                }
                Some(*for_ms)
            }
            What::Partition { cell, for_ms } => {
                self.post.cut(cell, true);
                Some(*for_ms)
            }
            What::Message(letter) => {
                self.post.arm(*letter);
                None
            }
            What::Clock { ms } => {
                self.clock.jump(*ms);
                None
            }
            What::Conductor => {
                reach.tree.conductor.addr().do_send(Shutdown);
                None
            }
            What::Restart => return true,
            What::Step(_) => None,
        };
        if let Some(ms) = lasts {
            let end = self.clock.elapsed_ms() + ms;
            self.enter(end, Event::Over(what));
        }
        false
    }

    /// Ends a fault that lasts.
    async fn over(&self, what: &What, reach: &Reach) {
        self.trace.note(format!("over   {what:?}"));
        match what {
            What::HostOff { cell, host, .. } => power_on(&reach.tree, cell, host),
            What::Partition { cell, .. } => self.post.cut(cell, false),
            What::Database { name, .. } => {
                if let Some(db) = self.database(name) {
                    db.set_outage(Outage::None);
                }
            }
            _ => {}
        }
    }

    fn database(&self, name: &str) -> Option<Db> {
        let services = &self.cloud.services;
        match name {
            "api" => Some(self.cloud.api.db().clone()),
            "network" => Some(services.network.db().clone()),
            "volume" => Some(services.volumes.db().clone()),
            "placement" => Some(services.placement.db().clone()),
            "image" => Some(services.images.db().clone()),
            cell => self.cloud.cells.iter().find(|known| known.name == cell).map(|cell| cell.db.db().clone()),
        }
    }

    async fn heal(&self, reach: &Reach) {
        self.trace.note("everything is healed");
        self.plan.heal();
        self.post.heal();
        for (cell, host) in reach.hosts.iter() {
            power_on(&reach.tree, cell, host);
            if let Some(driver) = self.watch.driver(host) {
                driver.heal();
            }
        }
        let cells = self.cloud.cells.iter().map(|cell| cell.name.as_str());
        for name in cells.chain(["api", "network", "volume", "placement", "image"]) {
            if let Some(db) = self.database(name) {
                db.set_outage(Outage::None);
            }
        }
    }

    /// Waits until nothing is at work, and judges.
    async fn quiet(&self, reach: &Reach) -> Result<Life, SimulationError> {
        let world = &reach.tree.world;
        let end = tokio::time::Instant::now() + QUIET_WITHIN;
        let mut calm = 0;
        while calm < CALM_LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let (held, debts) = (world.operations.held_servers().await?, world.operations.debts(None).await?);
            let queued = world.api.count_queued_deletes().await?;
            let waiting = *self.users.waiting.borrow();
            let down = reach.hosts.iter().find(|(cell, host)| !reach.tree.cell(cell).is_some_and(|cell| cell.hosts.is_alive(host)));
            let interrupted = self.watch.interrupted_guests();
            let is_calm = held.is_empty() && debts.is_empty() && queued == 0 && waiting == 0 && down.is_none() && interrupted.is_empty();
            calm = if is_calm { calm + 1 } else { 0 };
            if tokio::time::Instant::now() >= end {
                let owed: Vec<String> =
                    debts.iter().map(|debt| format!("{} {} of {}: {}", debt.side, debt.step, debt.server, debt.reason)).collect();
                let message = format!(
                    "not quiet {} s after the last fault: held {held:?}, owed {owed:?}, {queued} deletes queued, {waiting} requests wait, down {down:?}, interrupted {interrupted:?}",
                    QUIET_WITHIN.as_secs()
                );
                self.watch.found("I11", "the cloud".to_owned(), message);
                break;
            }
        }
        self.users.miss_nobody(reach, &self.watch).await;
        let report = audit::audit(world).await?;
        for violation in &report.violations {
            self.trace.note(format!("AUDIT  {violation}"));
        }
        Ok(Life::Over(Box::new(report)))
    }
}

/// Fine when it is on.
fn power_on(tree: &Tree, cell: &str, host: &str) {
    if let Some(cell) = tree.cell(cell).cloned() {
        let host = host.to_owned();
        tokio::task::spawn_local(async move { drop(cell.power_on_host(&host).await) });
    }
}
