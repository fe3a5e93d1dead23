//! The handle of a process's conductors for the API: new operations go to the conductors in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Addr, MailboxError};
use tokio::time::Instant;
use uuid::Uuid;

use super::beginning::broke_off;
use super::{Acceptance, Begin, Conductor, ConductorParts, KillMigration, PayDebts};
use crate::actors::address::Address;
use crate::actors::supervision::requests::Unanswered;
use crate::db::DbError;
use crate::domain::reason;
use crate::saga::context::{Context, Kind};
use crate::saga::refusal::Refusal;

/// The longest wait of a request for a conductor that lives and does not stand still.
const CONDUCTOR_PATIENCE: Duration = Duration::from_secs(15);
/// The longest wait for one conductor's acceptance. Then the next one in turn gets the request.
const TURN_PATIENCE: Duration = Duration::from_secs(1);
/// The pause after a dead conductor, whose successor is about to start.
const SUCCESSOR_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two looks for creates that users do not see yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A conductor's address and parts.
#[derive(Clone)]
pub struct Worker {
    address: Address<Conductor>,
    pub(in crate::actors) parts: ConductorParts,
}

impl Worker {
    /// Makes a handle of the actor at this address.
    pub fn new(address: Address<Conductor>, parts: ConductorParts) -> Worker {
        Worker { address, parts }
    }

    /// Returns the present address.
    pub fn addr(&self) -> Addr<Conductor> {
        self.address.get()
    }

    /// Makes the request for an operation. Fails if the process has too many of them at once.
    fn request_for(&self, context: Context) -> Result<Begin, Refusal> {
        let permit = self.parts.requests.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Refusal::Unavailable(reason!("{}", Unanswered::Busy)))?;
        Ok(Begin { context: Box::new(context), conductor: self.address.clone(), permit, within: self.parts.messages().enter() })
    }

    /// Returns the number of operations that have begun and not ended.
    fn in_flight(&self) -> usize {
        self.parts.in_flight.load(Ordering::Relaxed)
    }

    /// True if the conductor has shown work within its last two intervals.
    pub(in crate::actors) fn is_awake(&self) -> bool {
        let seen = *self.parts.seen.lock();
        seen.is_some_and(|seen| seen.elapsed() <= self.parts.world.operations.renewal_interval() * 2)
    }

    /// Waits until no operation holds the server.
    pub(in crate::actors) async fn until_at_rest(&self, server: Uuid) -> Result<(), DbError> {
        loop {
            // Subscribes before the look, so that no end is missed in between.
            let ended = self.parts.ended.notified();
            if self.parts.world.operations.holder(server).await?.is_none() {
                break;
            }
            let _ = tokio::time::timeout(Duration::from_millis(200), ended).await;
        }
        Ok(())
    }
}

/// The conductors of a process. Cheap to clone.
#[derive(Clone)]
pub struct ConductorHandle {
    first: Worker,
    others: Arc<[Worker]>,
    turns: Arc<AtomicUsize>,
}

impl ConductorHandle {
    /// Makes a handle of the first conductor and the others.
    pub fn new(first: Worker, others: impl IntoIterator<Item = Worker>) -> ConductorHandle {
        ConductorHandle { first, others: others.into_iter().collect(), turns: Arc::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Worker> {
        std::iter::once(&self.first).chain(self.others.iter())
    }

    /// Returns the number of conductors.
    pub fn workers(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the number of conductors that have shown work within their last two intervals, so that the leases they hold are renewed.
    pub fn awake(&self) -> usize {
        self.all().filter(|worker| worker.is_awake()).count()
    }

    /// Returns the conductor for a new operation: the next in turn that does not stand still, if there is one.
    pub(in crate::actors) fn next(&self) -> &Worker {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % self.workers();
        let in_turn = || self.all().skip(turn).chain(self.all().take(turn));
        in_turn().find(|worker| worker.is_awake()).or_else(|| in_turn().next()).unwrap_or(&self.first)
    }

    /// Gives the operation to the conductor in turn. If that one is dead or stands still, the next one gets it: who has not accepted a request
    /// begins nothing.
    pub(super) async fn hand_over(&self, context: Context) -> Result<Acceptance, Refusal> {
        let due = Instant::now() + CONDUCTOR_PATIENCE;
        loop {
            let conductor = self.next();
            conductor.parts.room.check(&context)?;
            let request = conductor.request_for(context.clone())?;
            match conductor.addr().send(request).timeout(TURN_PATIENCE).await {
                Ok(acceptance) => return Ok(acceptance),
                Err(_) if Instant::now() >= due => return Err(broke_off()),
                Err(MailboxError::Closed) => tokio::time::sleep(SUCCESSOR_PAUSE).await,
                Err(MailboxError::Timeout) => {}
            }
        }
    }

    /// Waits at a start until the hosts have started and users see each server whose create was in flight: a client that finds no server after
    /// a restart would create it again. Gives up after `patience`.
    pub async fn until_ready(&self, patience: Duration) {
        let makers: Vec<_> = Kind::ALL.iter().filter(|kind| kind.operation().makes_server).collect();
        let ready = async {
            self.first.parts.hosts.until_started().await;
            for worker in self.all() {
                let (operations, owner) = (&worker.parts.world.operations, &worker.parts.owner);
                for kind in &makers {
                    let first = kind.operation().first_step();
                    while operations.is_at_step(owner, kind.as_str(), first.as_str()).await.unwrap_or(true) {
                        tokio::time::sleep(BETWEEN_LOOKS).await;
                    }
                }
            }
        };
        if tokio::time::timeout(patience, ready).await.is_err() {
            log::warn!("some hosts have not started, or servers that were asked for before the restart are not seen yet");
        }
    }

    /// Waits until no operation holds the server; for tests and the demonstration.
    pub async fn until_at_rest(&self, server: Uuid) -> Result<(), DbError> {
        self.first.until_at_rest(server).await
    }

    /// Returns the number of operations that have begun and not ended: at work or waiting.
    pub fn in_flight(&self) -> usize {
        self.all().map(Worker::in_flight).sum()
    }

    /// Returns the address of the conductor with this name, if there is one.
    pub(in crate::actors) fn address_of(&self, actor: &str) -> Option<&Address<Conductor>> {
        self.all().find(|worker| worker.parts.actor == actor).map(|worker| &worker.address)
    }

    /// Returns the number of operations that have begun and not ended of the conductor with this name, if there is one.
    pub fn in_flight_of(&self, actor: &str) -> Option<usize> {
        self.all().find(|worker| worker.parts.actor == actor).map(Worker::in_flight)
    }

    /// Kills the actor of the saga that holds this server; false if none runs. For experiments.
    pub async fn kill_migration(&self, server: Uuid) -> bool {
        for worker in self.all() {
            let _within = worker.parts.messages().enter();
            if worker.addr().send(KillMigration(server)).await.unwrap_or(false) {
                return true;
            }
        }
        false
    }

    /// Tries the due debts and waits until each has been tried; for tests.
    pub async fn pay_debts(&self) {
        // If the conductor dies meanwhile, its successor or another conductor tries them.
        let worker = self.next();
        let _within = worker.parts.messages().enter();
        let _ = worker.addr().send(PayDebts).await;
    }
}
