//! A conductor supervises the migrations that run operations. It takes over the operations of its earlier incarnation and those whose leases another
//! conductor has not renewed, and pays debts. Several conductors may share an API database: the lease says who has an operation, and a
//! conductor that stood still learns of its loss at its next write.
//!
//! An operation meets the files in this order: `handle` gives it to a conductor, `beginning` takes the server and performs the first step,
//! `migration` is the actor that runs the saga, `crate::runner` its loop. `resume` goes on with it from its journal.

mod beginning;
mod handle;
mod migration;
mod resume;
mod stuck;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::prelude::*;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use crate::actors::address::Address;
use crate::actors::cell::CellHosts;
use crate::actors::service_report::ServiceReport;
use crate::actors::supervision::{ChildDied, Children, DeathGuard, Pause, Roster, Shutdown, Verdict, stand_still_with};
use crate::db::DbError;
use crate::db::api::leases::InFlight;
use crate::metrics::{Level, Mailbox, Within};
use crate::runner::room::{Limits, Room};
use crate::runner::{Ended, Flight};
use crate::saga;
use crate::saga::debt::Payer;
use crate::saga::performer::Performers;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

pub use self::handle::{ConductorHandle, Worker};
use self::migration::{Kill, MigrationActor, MigrationEnded, SignsOfLife};
pub use self::resume::Resume;
use self::stuck::Stuck;

/// The longest wait of operations in flight for the hosts to start.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two rounds for debts that are due.
const DEBT_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of requests for operations that a process's conductors have at once, in their mailboxes or at work. As many as a
/// process may have connections.
pub const REQUESTS_MAX: usize = 8192;

/// Begins an operation: takes its server and performs its first step.
#[derive(Message)]
#[rtype(result = "Acceptance")]
pub struct Begin {
    /// The operation.
    pub context: Box<saga::context::Context>,
    /// The address that outlives the conductor: if it dies meanwhile, its successor runs the operation.
    pub conductor: Address<Conductor>,
    /// Held until the operation has begun: it limits the requests at once.
    pub permit: OwnedSemaphorePermit,
    /// Counts the request as a message until then.
    pub within: Within,
}

/// The reply to [`Begin`]: the conductor has the request, and the caller now carries the beginning out. If the caller has turned to another
/// conductor meanwhile, nothing begins.
pub struct Acceptance {
    /// Ends with the operation's id, or with the refusal. Needs the conductor no more, and does nothing before it is awaited.
    beginning: BoxFuture<'static, Result<Uuid, Refusal>>,
}

/// Runs a saga. Counts as a message until it is handled.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Launch(pub Box<Flight>, pub Within);

/// Kills the actor of the saga that holds this server, if one runs; for experiments.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct KillMigration(pub Uuid);

/// Tries the due debts. Answered when each has been tried.
#[derive(Message)]
#[rtype(result = "()")]
pub struct PayDebts;

/// The controller that holds operations, the length of its leases, and the limits of what it does at once.
#[derive(Clone, Debug)]
pub struct Controller {
    /// The process's name, with which its conductors sign leases. At most one process at a time has a name.
    pub name: String,
    /// The time without renewal after which another conductor may take an operation over.
    pub lease: Duration,
    /// The number of conductors, at least one.
    pub workers: usize,
    /// The maximum numbers of its operations.
    pub limits: Limits,
}

impl Controller {
    /// Returns the names of the conductors' actors except the first.
    pub(super) fn others(&self) -> impl Iterator<Item = String> {
        (2..=self.workers).map(actor_name)
    }

    /// Returns the name with which a conductor signs leases.
    fn signature(&self, actor: &str) -> String {
        if actor == FIRST { self.name.clone() } else { format!("{}/{actor}", self.name) }
    }
}

/// The maximum number of conductors in a process.
pub const CONDUCTORS_MAX: usize = 16;

/// The name of a process's first conductor.
const FIRST: &str = "conductor";

/// Returns the name of a conductor's actor by its number from 1: `conductor`, `conductor-2` and so on.
pub fn actor_name(number: usize) -> String {
    if number < 2 { FIRST.to_owned() } else { format!("{FIRST}-{number}") }
}

/// The parts of a conductor, for each of its incarnations.
#[derive(Clone)]
pub struct ConductorParts {
    pub(super) world: Arc<World>,
    hosts: CellHosts,
    pub(super) performers: Arc<dyn Performers>,
    /// The actor's name.
    actor: String,
    /// The name with which all incarnations of this conductor sign leases.
    pub(super) owner: String,
    /// Notified when an operation ends or the debts have been tried, by any conductor of the process. It wakes waiters in their order, so that
    /// a seed can replay a run; a watch channel would wake them in a random order.
    pub(super) ended: Arc<Notify>,
    in_flight: Arc<AtomicUsize>,
    /// The places of requests for operations, over all conductors of the process.
    requests: Arc<Semaphore>,
    /// The room for operations at work, over all conductors of the process.
    pub(super) room: Room,
    /// The operations of all conductors of the process that wait for the journal, with the reasons.
    pub(super) stuck: Stuck,
    /// The time of the last sign of work; none before the start.
    seen: Arc<Mutex<Option<Instant>>>,
    /// The roster that lists its migrations.
    roster: Roster,
    /// The report to operators that the conductor lives.
    report: Option<ServiceReport>,
}

impl ConductorParts {
    /// Makes the parts of a controller's first conductor.
    pub fn new(world: Arc<World>, hosts: CellHosts, performers: Arc<dyn Performers>, controller: &Controller) -> ConductorParts {
        let (ended, in_flight, seen, metrics) = (Arc::default(), Arc::default(), Arc::default(), world.env.metrics());
        let (actor, owner) = (FIRST.to_owned(), controller.signature(FIRST));
        let (room, stuck, roster) = (Room::new(controller.limits, metrics), Stuck::counting(metrics), Roster::default());
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        ConductorParts { world, hosts, performers, actor, owner, ended, in_flight, requests, room, stuck, seen, roster, report: None }
    }

    /// Makes the parts of another conductor of the controller.
    pub fn another(&self, controller: &Controller, actor: &str) -> ConductorParts {
        let (actor, owner) = (actor.to_owned(), controller.signature(actor));
        ConductorParts { actor, owner, in_flight: Arc::default(), seen: Arc::default(), ..self.clone() }
    }

    /// Lists the migrations in this roster.
    pub fn listed(self, roster: &Roster) -> ConductorParts {
        ConductorParts { roster: roster.clone(), ..self }
    }

    /// Reports to operators that the conductor lives.
    pub fn reporting(self, report: Option<ServiceReport>) -> ConductorParts {
        ConductorParts { report, ..self }
    }

    /// Notes a sign of work.
    fn show(&self) {
        *self.seen.lock() = Some(Instant::now());
    }

    /// Returns the gauge of messages to conductors.
    fn messages(&self) -> Level {
        self.world.env.metrics().messages(Mailbox::Conductor)
    }

    /// The actor's name.
    pub(super) fn actor(&self) -> &str {
        &self.actor
    }

    /// Returns the prefix of its migrations' names: two conductors may have actors for one saga while one of them stands still.
    fn path(&self) -> String {
        if self.actor == FIRST { "migration/".to_owned() } else { format!("{}/migration/", self.actor) }
    }
}

/// The actor: one incarnation of a conductor.
pub struct Conductor {
    parts: ConductorParts,
    /// The migrations by their sagas' ids; none before the actor has started.
    migrations: Option<Children<MigrationActor>>,
    /// The deaths in a row by saga. A successor waits longer after each.
    deaths: BTreeMap<Uuid, u32>,
    /// Sagas that are being taken over.
    taking: BTreeSet<Uuid>,
    /// The migrations' signs of life, by which leases are renewed.
    signs: SignsOfLife,
    renewing: bool,
    in_round: bool,
    payer: Arc<Payer>,
    _guard: Option<DeathGuard>,
}

impl Conductor {
    /// Makes one incarnation of the actor; `guard` reports its death.
    pub fn new(parts: ConductorParts, guard: Option<DeathGuard>) -> Conductor {
        let payer = Arc::new(Payer::new(parts.world.clone(), &parts.owner));
        Conductor {
            parts,
            migrations: None,
            deaths: BTreeMap::new(),
            taking: BTreeSet::new(),
            signs: SignsOfLife::default(),
            renewing: false,
            in_round: false,
            payer,
            _guard: guard,
        }
    }

    fn launch(&mut self, flight: Box<Flight>, ctx: &mut Context<Self>) {
        let (world, performers, room) = (self.parts.world.clone(), self.parts.performers.clone(), self.parts.room.clone());
        let signs = self.signs.clone();
        let ends = ctx.address().downgrade().recipient();
        let Some(migrations) = self.migrations.as_mut() else { return };
        let name = flight.context.saga.to_string();
        migrations.start_once(&name, move |guard| MigrationActor::new(world, performers, room, flight, signs, ends, guard).start());
        self.count_running();
    }

    fn running(&self, saga: Uuid) -> Option<&Addr<MigrationActor>> {
        self.migrations.as_ref()?.get(&saga.to_string())
    }

    fn count_running(&self) {
        let running = self.migrations.as_ref().map_or(0, Children::len);
        self.parts.in_flight.store(running, Ordering::Relaxed);
        self.parts.world.env.metrics().operations_in_flight(&self.parts.actor, running);
    }

    /// Takes over the sagas of an earlier incarnation as soon as the hosts have started and the database answers. From then on it looks for sagas of
    /// others whose leases have run out.
    fn take_up(&self, ctx: &mut Context<Self>) {
        let (world, hosts, owner) = (self.parts.world.clone(), self.parts.hosts.clone(), self.parts.owner.clone());
        let left = async move {
            // A starting host must not count as down.
            if tokio::time::timeout(START_PATIENCE, hosts.until_started()).await.is_err() {
                log::warn!("some hosts have not started; what was in flight goes on without them");
            }
            world.operations.in_flight_of(&owner).await
        };
        ctx.spawn(left.into_actor(self).map(|left, conductor, ctx| match left {
            Ok(InFlight { sagas, left_alone }) => {
                if !sagas.is_empty() {
                    log::info!("{} operations of an earlier start go on", sagas.len());
                }
                conductor.parts.stuck.leave_alone(&left_alone);
                ctx.notify(Resume(sagas));
                ctx.run_interval(conductor.parts.world.operations.round_interval(), Conductor::run_round);
            }
            Err(error @ DbError::Unavailable { .. }) => {
                log::warn!("the operations in flight cannot be read yet: {error}");
                ctx.run_later(Duration::from_secs(1), |conductor, ctx| conductor.take_up(ctx));
            }
            Err(error) => {
                log::error!("the operations in flight cannot be read: {error}");
                ctx.stop();
            }
        }));
    }

    /// Takes over sagas whose leases have run out, and gives cancelled sagas that wait their turn. Asks with one query each, however many are
    /// in flight.
    fn run_round(&mut self, ctx: &mut Context<Self>) {
        // At most one query is under way.
        if std::mem::replace(&mut self.in_round, true) {
            return;
        }
        let ConductorParts { world, room, owner, .. } = self.parts.clone();
        let question = async move {
            if room.has_waiting() {
                // Another process may have recorded the wish to cancel.
                world.operations.cancelled(&owner).await?.into_iter().for_each(|saga| room.wake(saga));
            }
            world.operations.abandoned().await
        };
        ctx.spawn(question.into_actor(self).map(|in_flight: Result<InFlight, DbError>, conductor, ctx| {
            conductor.in_round = false;
            match in_flight {
                Ok(InFlight { sagas, left_alone }) => {
                    if !sagas.is_empty() {
                        log::info!("{} operations whose lease has run out are taken over", sagas.len());
                    }
                    conductor.parts.stuck.leave_alone(&left_alone);
                    ctx.notify(Resume(sagas));
                }
                Err(error) => log::debug!("it cannot be seen whose leases have run out, or which operations are cancelled: {error}"),
            }
        }));
    }

    /// Renews the leases of the migrations that have shown a sign of life since the last time, in one statement. A migration that stands still
    /// loses its lease.
    fn renew(&mut self, ctx: &mut Context<Self>) {
        self.parts.show();
        if self.renewing {
            return;
        }
        let alive = self.signs.take();
        if alive.is_empty() {
            return;
        }
        self.renewing = true;
        let (world, owner) = (self.parts.world.clone(), self.parts.owner.clone());
        let renewed = async move { world.operations.renew_all(&owner, alive).await };
        ctx.spawn(renewed.into_actor(self).map(|renewed, conductor, _| {
            conductor.renewing = false;
            if let Err(why) = renewed {
                // The journal refuses further entries of sagas that another conductor has taken.
                log::warn!("leases could not be renewed: {why}");
            }
        }));
    }

    /// Returns the pause before the successor of an actor that died `deaths` times in a row.
    fn restart_pause(deaths: u32) -> Duration {
        if deaths <= 3 { Duration::ZERO } else { Duration::from_millis(100 << (deaths - 3).min(8)) }
    }

    fn tell_waiting(&self) {
        self.count_running();
        self.parts.ended.notify_waiters();
    }
}

impl Actor for Conductor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let migrations = Children::new(ctx.address().downgrade().recipient());
        self.migrations = Some(migrations.listed(&self.parts.roster, &self.parts.path()));
        self.parts.show();
        if let Some(report) = &self.parts.report {
            report.keep(ctx);
        }
        self.take_up(ctx);
        ctx.run_interval(self.parts.world.operations.renewal_interval(), Conductor::renew);
        ctx.run_interval(DEBT_INTERVAL, |_, ctx| {
            ctx.notify(PayDebts);
        });
    }
}

impl Handler<Launch> for Conductor {
    type Result = ();

    fn handle(&mut self, Launch(flight, _within): Launch, ctx: &mut Self::Context) {
        let saga = flight.context.saga;
        // A saga that was taken over during its beginning runs under a later lease.
        if self.running(saga).is_none() && !self.taking.contains(&saga) {
            self.launch(flight, ctx);
        }
    }
}

impl Handler<MigrationEnded> for Conductor {
    type Result = ();

    fn handle(&mut self, end: MigrationEnded, ctx: &mut Self::Context) {
        self.deaths.remove(&end.saga);
        self.parts.stuck.goes_on(end.saga);
        match end.ended {
            // The conductor that overtook it runs it. If its lease is not renewed, a later round finds it.
            Ended::Done | Ended::Unwound | Ended::Overtaken => {}
            Ended::Followed(delete) => ctx.notify(Resume::one(delete)),
            Ended::Lost(why) => {
                log::warn!(server:% = end.server, migration:% = end.saga; "the journal could not be written: {why}");
                self.parts.stuck.waits(end.saga, why);
                ctx.notify_later(Resume::one(end.saga), Duration::from_millis(500));
            }
        }
    }
}

impl Handler<ChildDied> for Conductor {
    type Result = ();

    fn handle(&mut self, died: ChildDied, ctx: &mut Self::Context) {
        let verdict = self.migrations.as_mut().map(|migrations| migrations.on_death(&died));
        if let (Some(Verdict::Died), Ok(saga)) = (verdict, died.name.parse::<Uuid>()) {
            let deaths = self.deaths.entry(saga).or_insert(0);
            *deaths += 1;
            let pause = Self::restart_pause(*deaths);
            log::warn!(migration:% = saga, deaths:% = deaths; "a migration's actor died; a successor goes on from the journal");
            ctx.notify_later(Resume::one(saga), pause);
        }
        self.tell_waiting();
    }
}

impl Handler<KillMigration> for Conductor {
    type Result = ResponseActFuture<Self, bool>;

    fn handle(&mut self, KillMigration(server): KillMigration, _: &mut Self::Context) -> Self::Result {
        let world = self.parts.world.clone();
        let holder = async move { world.operations.holder(server).await.ok().flatten() };
        Box::pin(holder.into_actor(self).map(|saga, conductor, _| {
            let migration = saga.and_then(|saga| conductor.running(saga));
            migration.map(|migration| migration.do_send(Kill)).is_some()
        }))
    }
}

impl Handler<PayDebts> for Conductor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: PayDebts, _: &mut Self::Context) -> Self::Result {
        let payer = self.payer.clone();
        let tried = async move { payer.pay_due().await };
        Box::pin(tried.into_actor(self).map(|(), conductor, _| conductor.tell_waiting()))
    }
}

impl Handler<Shutdown> for Conductor {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Pause> for Conductor {
    type Result = ();

    /// Its migrations stand still with it, as on one stopped thread.
    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        let migrations = self.migrations.as_ref().map(Children::all_stand_still);
        stand_still_with(self, pause, ctx, migrations);
    }
}
