//! A migration: the actor that runs one saga. It owns nothing that the journal does not hold, so its death costs no more
//! than the step at hand. It tells the conductor how the saga ended; its guard tells of every other end of the actor.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use actix::WeakRecipient;
use actix::prelude::*;
use uuid::Uuid;

use super::runner::{Ended, Flight, run};
use crate::actors::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::saga::performer::Performers;
use crate::saga::world::World;

/// The actor of one saga.
pub struct Migration {
    world: Arc<World>,
    performers: Arc<dyn Performers>,
    flight: Option<Flight>,
    signs: SignsOfLife,
    conductor: WeakRecipient<MigrationEnded>,
    guard: DeathGuard,
}

/// Where a conductor's migrations show that they do not stand still, so that it renews the leases of those and of no others.
#[derive(Clone, Default)]
pub struct SignsOfLife(Arc<Mutex<BTreeSet<Uuid>>>);

impl SignsOfLife {
    fn show(&self, saga: Uuid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(saga);
    }

    /// Those who have shown themselves since the last time.
    pub fn take(&self) -> Vec<Uuid> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

/// A migration's actor has come to an end of its work, and stops.
#[derive(Message)]
#[rtype(result = "()")]
pub struct MigrationEnded {
    /// The saga.
    pub saga: Uuid,
    /// Whose it is.
    pub server: Uuid,
    /// How it ended.
    pub ended: Ended,
}

/// Dies at once; for experiments.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Kill;

impl Migration {
    /// An actor for a saga in flight, which shows its signs of life there; `conductor` hears how it ends, and `guard` reports its death.
    pub fn new(
        world: Arc<World>,
        performers: Arc<dyn Performers>,
        flight: Flight,
        signs: SignsOfLife,
        conductor: WeakRecipient<MigrationEnded>,
        guard: DeathGuard,
    ) -> Migration {
        Migration { world, performers, flight: Some(flight), signs, conductor, guard }
    }
}

impl Actor for Migration {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(flight) = self.flight.take() else { return ctx.stop() };
        let (saga, server) = (flight.context.saga, flight.context.server);
        ctx.run_interval(self.world.operations.renewal_interval(), move |migration, _| migration.signs.show(saga));
        let running = run(self.world.clone(), self.performers.of_saga(), flight);
        ctx.spawn(running.into_actor(self).map(move |ended, migration, ctx| {
            if let Some(conductor) = migration.conductor.upgrade() {
                conductor.do_send(MigrationEnded { saga, server, ended });
            }
            migration.guard.finish();
            ctx.stop();
        }));
    }
}

impl Handler<Kill> for Migration {
    type Result = ();

    fn handle(&mut self, _: Kill, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

impl Handler<Shutdown> for Migration {
    type Result = ();

    /// What is in flight stays in the journal.
    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

impl Handler<Pause> for Migration {
    type Result = ();

    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        stand_still(self, pause, ctx);
    }
}
