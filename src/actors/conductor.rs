//! The conductor: accepts operations (at most one per server), supervises the migrations that run them, takes over what a
//! dead process left in the journal, and pays debts when their participants return.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::Notify;
use uuid::Uuid;

use super::address::Address;
use super::cell::CellHosts;
use super::migration::{Kill, Migration, MigrationEnded};
use super::runner::{Ended, Flight};
use super::supervision::{ChildDied, Children, DeathGuard, Pause, Roster, Shutdown, Verdict, stand_still};
use crate::chaos::point::FaultPoints;
use crate::db::DbError;
use crate::db::api::operations::TakeOver;
use crate::env::guard::{Guard, stands};
use crate::saga::debt;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

/// How long what was in flight waits for the hosts to start.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How often a lease is renewed within its length.
const RENEWALS_PER_LEASE: u32 = 3;
/// The least pause before a lease that another controller held is asked for again.
const LEASE_PAUSE: Duration = Duration::from_millis(100);
/// How often debts are tried.
const DEBT_INTERVAL: Duration = Duration::from_secs(2);

/// What came of an attempt to go on with a saga.
enum Resumed {
    Flight(Box<Flight>),
    /// Another controller's lease runs for so long.
    Later(Duration),
    /// It has ended.
    Over,
}

/// A saga is to run.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Launch(pub Flight);

/// Go on with a saga from its journal.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Resume(pub Uuid);

/// Kill the actor of the saga that holds this server, if one runs; for experiments.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct KillMigration(pub Uuid);

/// Try to pay what is owed, now; answered when all of it has been tried.
#[derive(Message)]
#[rtype(result = "()")]
pub struct PayDebts;

/// Who holds operations, and for how long.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Leases are signed with it. One name, one process at a time.
    pub name: String,
    /// After this long without renewal another controller may go on with an operation.
    pub lease: Duration,
}

/// What every life of the conductor is made of.
#[derive(Clone)]
pub struct ConductorParts {
    pub(super) world: Arc<World>,
    hosts: CellHosts,
    pub(super) faults: FaultPoints,
    pub(super) controller: Controller,
    /// Told whenever an operation ends or the debts have been tried.
    /// It wakes those who wait in their order; a watch channel would do so in a random one, which a seed could not replay.
    pub(super) ended: Arc<Notify>,
    max_in_flight: usize,
    in_flight: Arc<AtomicUsize>,
    /// Where its migrations are listed.
    roster: Roster,
}

impl ConductorParts {
    /// Of this controller.
    pub fn new(world: Arc<World>, hosts: CellHosts, faults: FaultPoints, controller: Controller, max_in_flight: usize) -> ConductorParts {
        let (ended, in_flight, roster) = (Arc::default(), Arc::default(), Roster::default());
        ConductorParts { world, hosts, faults, controller, ended, max_in_flight, in_flight, roster }
    }

    /// The same, with its migrations listed there.
    pub fn listed(self, roster: &Roster) -> ConductorParts {
        ConductorParts { roster: roster.clone(), ..self }
    }

    /// The refusal when as many operations are in progress as there may be.
    pub(super) fn check_room(&self) -> Result<(), Refusal> {
        if stands(Guard::OperationsLimit) && self.in_flight.load(Ordering::Relaxed) >= self.max_in_flight {
            return Err(Refusal::Unavailable(format!("{} operations are in progress, which is the limit", self.max_in_flight)));
        }
        Ok(())
    }
}

/// The actor.
pub struct Conductor {
    parts: ConductorParts,
    /// The migrations by their sagas' ids; none before the actor has started.
    migrations: Option<Children<Migration>>,
    /// Deaths in a row per saga; a successor waits longer after each.
    deaths: BTreeMap<Uuid, u32>,
    paying: Arc<tokio::sync::Mutex<()>>,
    _guard: Option<DeathGuard>,
}

impl Conductor {
    /// One life of it; `guard` reports its death.
    pub fn new(parts: ConductorParts, guard: Option<DeathGuard>) -> Conductor {
        Conductor { parts, migrations: None, deaths: BTreeMap::new(), paying: Arc::default(), _guard: guard }
    }

    fn launch(&mut self, flight: Flight, ctx: &mut Context<Self>) {
        let (world, faults) = (self.parts.world.clone(), self.parts.faults.clone());
        let renewal = self.parts.controller.lease / RENEWALS_PER_LEASE;
        let ends = ctx.address().downgrade().recipient();
        let Some(migrations) = self.migrations.as_mut() else { return };
        let name = flight.context.saga.to_string();
        migrations.start_once(&name, move |guard| Migration::new(world, faults, flight, renewal, ends, guard).start());
        self.count_running();
    }

    fn running(&self, saga: Uuid) -> Option<&Addr<Migration>> {
        self.migrations.as_ref()?.get(&saga.to_string())
    }

    fn count_running(&self) {
        let running = self.migrations.as_ref().map_or(0, Children::len);
        self.parts.in_flight.store(running, Ordering::Relaxed);
    }

    /// Goes on with what the journal holds, as soon as the hosts have started and its database answers.
    fn take_up(&self, ctx: &mut Context<Self>) {
        let (world, hosts) = (self.parts.world.clone(), self.parts.hosts.clone());
        let left = async move {
            // A host that is about to start must not be taken for one that is down.
            if tokio::time::timeout(START_PATIENCE, hosts.until_started()).await.is_err() {
                log::warn!("some hosts have not started; what was in flight goes on without them");
            }
            world.operations.in_flight().await
        };
        ctx.spawn(left.into_actor(self).map(|left, _, ctx| match left {
            Ok(sagas) => sagas.into_iter().for_each(|saga| ctx.notify(Resume(saga))),
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

    /// The pause before the successor of an actor that died `deaths` times in a row.
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
        self.migrations = Some(migrations.listed(&self.parts.roster, "migration/"));
        self.take_up(ctx);
        ctx.run_interval(DEBT_INTERVAL, |conductor, ctx| {
            if conductor.paying.try_lock().is_ok() {
                ctx.notify(PayDebts);
            }
        });
    }
}

impl Handler<Launch> for Conductor {
    type Result = ();

    fn handle(&mut self, Launch(flight): Launch, ctx: &mut Self::Context) {
        self.launch(flight, ctx);
    }
}

impl Handler<Resume> for Conductor {
    type Result = ();

    fn handle(&mut self, Resume(saga): Resume, ctx: &mut Self::Context) {
        if self.running(saga).is_some() {
            return;
        }
        let (world, owner) = (self.parts.world.clone(), self.parts.controller.name.clone());
        let taken = async move {
            match world.operations.take_over(saga, &owner).await? {
                TakeOver::Taken(record, entries) => Flight::resumed(&record, &entries).map(|flight| Resumed::Flight(Box::new(flight))),
                TakeOver::Held(left) => Ok(Resumed::Later(left)),
                TakeOver::Over => Ok(Resumed::Over),
            }
        };
        ctx.spawn(taken.into_actor(self).map(move |taken, conductor, ctx| match taken {
            Ok(Resumed::Flight(flight)) => conductor.launch(*flight, ctx),
            Ok(Resumed::Later(left)) => {
                log::info!(migration:% = saga; "another controller has a saga, for {left:?} unless it renews its lease");
                ctx.notify_later(Resume(saga), left.max(LEASE_PAUSE));
            }
            Ok(Resumed::Over) => {}
            Err(error @ DbError::Unavailable { .. }) => {
                log::warn!(migration:% = saga; "a saga cannot be taken over yet: {error}");
                ctx.notify_later(Resume(saga), Duration::from_secs(1));
            }
            Err(error) => log::error!(migration:% = saga; "a saga in the journal cannot be read, an operator must look: {error}"),
        }));
    }
}

impl Handler<MigrationEnded> for Conductor {
    type Result = ();

    fn handle(&mut self, end: MigrationEnded, ctx: &mut Self::Context) {
        self.deaths.remove(&end.saga);
        match end.ended {
            Ended::Done | Ended::Unwound => {}
            // Whoever took it over runs it; if that was a predecessor of ours that died since, the journal says so.
            Ended::Overtaken => {
                ctx.notify_later(Resume(end.saga), Duration::from_secs(5));
            }
            Ended::Lost(why) => {
                log::warn!(server:% = end.server, migration:% = end.saga; "the journal could not be written: {why}");
                ctx.notify_later(Resume(end.saga), Duration::from_millis(500));
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
            ctx.notify_later(Resume(saga), pause);
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
        let (world, paying) = (self.parts.world.clone(), self.paying.clone());
        let tried = async move {
            let _turn = paying.lock().await;
            debt::pay_all(&world).await;
        };
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

    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        stand_still(self, pause, ctx);
    }
}

/// The conductor as the API sees it.
#[derive(Clone)]
pub struct ConductorHandle {
    address: Address<Conductor>,
    pub(super) parts: ConductorParts,
}

impl ConductorHandle {
    /// To the actor behind an address.
    pub fn new(address: Address<Conductor>, parts: ConductorParts) -> ConductorHandle {
        ConductorHandle { address, parts }
    }

    /// Where to send messages now.
    pub fn addr(&self) -> Addr<Conductor> {
        self.address.get()
    }

    /// Waits until no operation holds the server; for tests and the demonstration.
    pub async fn until_at_rest(&self, server: Uuid) -> Result<(), DbError> {
        loop {
            // Before the look, so that no end is missed in between.
            let ended = self.parts.ended.notified();
            if self.parts.world.operations.holder(server).await?.is_none() {
                break;
            }
            let _ = tokio::time::timeout(Duration::from_millis(200), ended).await;
        }
        Ok(())
    }

    /// Operations at work now.
    pub fn in_flight(&self) -> usize {
        self.parts.in_flight.load(Ordering::Relaxed)
    }

    /// Tries what is owed and waits until all of it has been tried; for tests.
    pub async fn pay_debts(&self) {
        // A conductor that dies meanwhile leaves it to its successor's ticks.
        let _ = self.addr().send(PayDebts).await;
    }
}
