//! A migration: the actor that runs one saga. It owns nothing that the journal does not hold, so its death costs no more
//! than the step at hand. It tells the conductor how the saga ended; its guard tells of every other end of the actor.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::WeakRecipient;
use actix::prelude::*;
use uuid::Uuid;

use super::runner::{Ended, Flight, run};
use super::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::chaos::point::FaultPoints;
use crate::saga::world::World;

/// The actor of one saga.
pub struct Migration {
    world: Arc<World>,
    faults: FaultPoints,
    flight: Option<Flight>,
    /// How often the lease is renewed.
    renewal: Duration,
    conductor: WeakRecipient<MigrationEnded>,
    guard: DeathGuard,
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
    /// An actor for a saga in flight, whose lease it renews every so often; `conductor` hears how it ends, and `guard` reports its death.
    pub fn new(
        world: Arc<World>,
        faults: FaultPoints,
        flight: Flight,
        renewal: Duration,
        conductor: WeakRecipient<MigrationEnded>,
        guard: DeathGuard,
    ) -> Migration {
        Migration { world, faults, flight: Some(flight), renewal, conductor, guard }
    }
}

impl Actor for Migration {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(flight) = self.flight.take() else { return ctx.stop() };
        let (saga, server) = (flight.context.saga, flight.context.server);
        let (world, epoch) = (self.world.clone(), flight.context.lease_epoch);
        ctx.run_interval(self.renewal, move |migration, ctx| {
            let world = world.clone();
            let renewed = async move { world.operations.renew(saga, epoch).await };
            ctx.spawn(renewed.into_actor(migration).map(move |renewed, _, _| {
                if let Err(why) = renewed {
                    // The journal refuses the runner's next entry if it is another's by now.
                    log::warn!(migration:% = saga; "a lease could not be renewed: {why}");
                }
            }));
        });
        let running = run(self.world.clone(), self.faults.clone(), flight);
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
