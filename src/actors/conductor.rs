//! The conductor: accepts operations (at most one per server), supervises the migrations that run them, takes over what a
//! dead process left in the journal, and pays debts when their participants return.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::prelude::*;
use async_trait::async_trait;
use tokio::sync::watch;
use uuid::Uuid;

use super::address::Address;
use super::migration::{Kill, Migration, MigrationEnded};
use super::runner::{Ended, Flight};
use super::supervision::{ChildDied, Children, DeathGuard, Shutdown, Verdict};
use crate::chaos::point::FaultPoints;
use crate::db::DbError;
use crate::saga::context::Context as SagaContext;
use crate::saga::debt;
use crate::saga::operations::BeginOperation;
use crate::saga::refusal::Refusal;
use crate::saga::tables::{accept, table_of};
use crate::saga::world::World;

/// How often debts are tried.
const DEBT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a request waits for an operation on the same server that has all but ended.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);

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

/// Try to pay what is owed, now.
#[derive(Message)]
#[rtype(result = "()")]
pub struct PayDebts;

/// What every life of the conductor is made of.
#[derive(Clone)]
pub struct ConductorParts {
    world: Arc<World>,
    faults: FaultPoints,
    /// Under which leases are signed.
    owner: String,
    /// Changes whenever an operation ends or the debts have been tried.
    ended: Arc<watch::Sender<u64>>,
    max_in_flight: usize,
    in_flight: Arc<AtomicUsize>,
}

impl ConductorParts {
    /// Signs leases with a fresh name.
    pub fn new(world: Arc<World>, faults: FaultPoints, ended: watch::Sender<u64>, max_in_flight: usize) -> ConductorParts {
        let owner = format!("conductor-{}", world.env.uuid());
        ConductorParts { world, faults, owner, ended: Arc::new(ended), max_in_flight, in_flight: Arc::default() }
    }
}

/// The actor.
pub struct Conductor {
    parts: ConductorParts,
    /// The migrations by their sagas' ids; none before the actor has started.
    migrations: Option<Children<Migration>>,
    /// Deaths in a row per saga; a successor waits longer after each.
    deaths: BTreeMap<Uuid, u32>,
    paying: bool,
    _guard: Option<DeathGuard>,
}

impl Conductor {
    /// One life of it; `guard` reports its death.
    pub fn new(parts: ConductorParts, guard: Option<DeathGuard>) -> Conductor {
        Conductor { parts, migrations: None, deaths: BTreeMap::new(), paying: false, _guard: guard }
    }

    fn launch(&mut self, flight: Flight, ctx: &mut Context<Self>) {
        let (world, faults) = (self.parts.world.clone(), self.parts.faults.clone());
        let ends = ctx.address().downgrade().recipient();
        let Some(migrations) = self.migrations.as_mut() else { return };
        let name = flight.context.saga.to_string();
        migrations.start_once(&name, move |guard| Migration::new(world, faults, flight, ends, guard).start());
        self.count_running();
    }

    fn running(&self, saga: Uuid) -> Option<&Addr<Migration>> {
        self.migrations.as_ref()?.get(&saga.to_string())
    }

    fn count_running(&self) {
        let running = self.migrations.as_ref().map_or(0, Children::len);
        self.parts.in_flight.store(running, Ordering::Relaxed);
    }

    /// Goes on with what the journal holds, as soon as its database answers.
    fn take_up(&self, ctx: &mut Context<Self>) {
        let world = self.parts.world.clone();
        let left = async move { world.operations.in_flight().await };
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
        self.parts.ended.send_modify(|count| *count += 1);
    }
}

impl Actor for Conductor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.migrations = Some(Children::new(ctx.address().downgrade().recipient()));
        self.take_up(ctx);
        ctx.run_interval(DEBT_INTERVAL, |_, ctx| ctx.notify(PayDebts));
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
        let (world, owner) = (self.parts.world.clone(), self.parts.owner.clone());
        let taken = async move {
            match world.operations.take_over(saga, &owner).await? {
                Some((record, entries)) => Flight::resumed(&record, &entries).map(Some),
                None => Ok(None),
            }
        };
        ctx.spawn(taken.into_actor(self).map(move |taken, conductor, ctx| match taken {
            Ok(Some(flight)) => conductor.launch(flight, ctx),
            Ok(None) => {}
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
    type Result = ();

    fn handle(&mut self, _: PayDebts, ctx: &mut Self::Context) {
        if std::mem::replace(&mut self.paying, true) {
            return;
        }
        let world = self.parts.world.clone();
        ctx.spawn(async move { debt::pay_all(&world).await }.into_actor(self).map(|(), conductor, _| {
            conductor.paying = false;
            conductor.tell_waiting();
        }));
    }
}

impl Handler<Shutdown> for Conductor {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

/// The conductor as the API sees it.
#[derive(Clone)]
pub struct ConductorHandle {
    address: Address<Conductor>,
    parts: ConductorParts,
    ended: watch::Receiver<u64>,
}

#[async_trait]
impl BeginOperation for ConductorHandle {
    async fn begin(&self, context: SagaContext) -> Result<Uuid, Refusal> {
        ConductorHandle::begin(self, context).await
    }
}

impl ConductorHandle {
    /// To the actor behind an address.
    pub fn new(address: Address<Conductor>, parts: ConductorParts, ended: watch::Receiver<u64>) -> ConductorHandle {
        ConductorHandle { address, parts, ended }
    }

    /// Where to send messages now.
    pub fn addr(&self) -> Addr<Conductor> {
        self.address.get()
    }

    /// Accepts an operation: takes the server, checks its state under that hold, and starts the saga. When this answers
    /// `Ok`, the operation is durable and ends by itself.
    pub async fn begin(&self, mut context: SagaContext) -> Result<Uuid, Refusal> {
        if self.parts.in_flight.load(Ordering::Relaxed) >= self.parts.max_in_flight {
            return Err(Refusal::Unavailable(format!("{} operations are in progress, which is the limit", self.parts.max_in_flight)));
        }
        let fence = self.take_server(&context).await?;
        context.lease_epoch = 1;
        match accept(&self.parts.world, &mut context, fence).await {
            Ok(()) => {
                let flight = Flight::accepted(context.clone(), fence, self.parts.world.env.now());
                self.addr().try_send(Launch(flight)).or_else(|_| self.addr().try_send(Resume(context.saga))).map_err(|_| {
                    // It stands in the journal and begins when the conductor has room.
                    self.addr().do_send(Resume(context.saga));
                    Refusal::Unavailable("too many operations begin at once".into())
                })?;
                Ok(context.saga)
            }
            Err(refusal) => {
                // Nothing may be left of it; if what was asked may have happened, the saga's own undo finds out.
                if matches!(refusal, Refusal::Unavailable(_))
                    || self.parts.world.operations.abandon(context.saga, &refusal.to_string()).await.is_err()
                {
                    self.addr().do_send(Resume(context.saga));
                }
                Err(refusal)
            }
        }
    }

    async fn take_server(&self, context: &SagaContext) -> Result<crate::domain::fence::Fence, Refusal> {
        let first = table_of(context).steps[0].name;
        let json = serde_json::to_string(context).map_err(|e| Refusal::Invalid(e.to_string()))?;
        let deadline = tokio::time::Instant::now() + ENDING_PATIENCE;
        let mut ended = self.ended.clone();
        loop {
            ended.borrow_and_update();
            let begun = self
                .parts
                .world
                .operations
                .begin(context.saga, context.server, context.kind.as_str(), first, json.clone(), &self.parts.owner)
                .await;
            match begun {
                Ok(fence) => return Ok(fence),
                Err(DbError::Conflict(_)) => {}
                Err(other) => return Err(other.into()),
            }
            let busy = crate::saga::accept::busy_with(&self.parts.world, context).await?;
            if busy.is_some() || tokio::time::Instant::now() >= deadline {
                return Err(Refusal::Conflict(crate::saga::accept::busy_message(context, busy)));
            }
            // The operation before has shown its end to the user and is about to let go.
            let _ = tokio::time::timeout(Duration::from_millis(50), ended.changed()).await;
        }
    }

    /// Waits until no operation holds the server; for tests and the demonstration.
    pub async fn until_at_rest(&self, server: Uuid) -> Result<(), DbError> {
        let mut ended = self.ended.clone();
        while self.parts.world.operations.holder(server).await?.is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(200), ended.changed()).await;
        }
        Ok(())
    }
}
