//! A migration: the actor that runs one saga. The journal holds all of its state, so its death costs no more than the step at hand. The actor
//! reports the saga's end to the conductor; its guard reports its death.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::WeakRecipient;
use actix::prelude::*;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::actors::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::metrics::{Mailbox, Within};
use crate::runner::room::Room;
use crate::runner::{Ended, Flight, run};
use crate::saga::performer::Performers;
use crate::saga::world::World;

/// The actor of one saga.
pub struct MigrationActor {
    world: Arc<World>,
    performers: Arc<dyn Performers>,
    room: Room,
    flight: Option<Box<Flight>>,
    signs: SignsOfLife,
    conductor: WeakRecipient<MigrationEnded>,
    guard: DeathGuard,
}

/// The signs of life of a conductor's migrations. The conductor renews only the leases of those that show one.
#[derive(Clone, Default)]
pub struct SignsOfLife(Arc<Mutex<BTreeSet<Uuid>>>);

impl SignsOfLife {
    fn show(&self, saga: Uuid) {
        self.0.lock().insert(saga);
    }

    /// Returns the sagas that have shown a sign since the last call.
    pub fn take(&self) -> Vec<Uuid> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}

/// Reports that a migration's actor has ended its work.
#[derive(Message)]
#[rtype(result = "()")]
pub struct MigrationEnded {
    /// The saga.
    pub saga: Uuid,
    /// The saga's server.
    pub server: Uuid,
    /// The end of the run.
    pub ended: Ended,
    /// Counts the message until it is handled.
    pub _within: Within,
}

/// Dies at once; for experiments.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Kill;

impl MigrationActor {
    /// Makes the actor of a saga in flight. `conductor` receives the end, `signs` the signs of life, and `guard` reports the actor's death.
    pub fn new(
        world: Arc<World>,
        performers: Arc<dyn Performers>,
        room: Room,
        flight: Box<Flight>,
        signs: SignsOfLife,
        conductor: WeakRecipient<MigrationEnded>,
        guard: DeathGuard,
    ) -> MigrationActor {
        MigrationActor { world, performers, room, flight: Some(flight), signs, conductor, guard }
    }
}

impl Actor for MigrationActor {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(flight) = self.flight.take() else { return ctx.stop() };
        let (saga, server) = (flight.context.saga, flight.context.server);
        ctx.run_interval(self.world.operations.renewal_interval(), move |migration, _| migration.signs.show(saga));
        let running = run(self.world.clone(), self.performers.of_saga(), self.room.clone(), flight);
        ctx.spawn(running.into_actor(self).map(move |ended, migration, ctx| {
            if let Some(conductor) = migration.conductor.upgrade() {
                let within = migration.world.env.metrics().messages(Mailbox::Conductor).enter();
                conductor.do_send(MigrationEnded { saga, server, ended, _within: within });
            }
            migration.guard.finish();
            ctx.stop();
        }));
    }
}

impl Handler<Kill> for MigrationActor {
    type Result = ();

    fn handle(&mut self, _: Kill, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

impl Handler<Shutdown> for MigrationActor {
    type Result = ();

    /// Stops; the saga stays in the journal.
    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

impl Handler<Pause> for MigrationActor {
    type Result = ();

    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        stand_still(self, pause, ctx);
    }
}
