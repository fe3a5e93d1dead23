//! A migration: the actor that runs one saga. It owns nothing that the journal does not hold, so its death costs no more
//! than the step at hand; a guard inside it reports every kind of death to the conductor.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use uuid::Uuid;

use super::conductor::{Conductor, MigrationEnded};
use super::runner::{Ended, Flight, run};
use crate::chaos::point::FaultPoints;
use crate::saga::world::World;

/// The actor of one saga.
pub struct Migration {
    world: Arc<World>,
    faults: FaultPoints,
    flight: Option<Flight>,
    /// How often the lease is renewed.
    renewal: Duration,
    guard: Guard,
}

/// Reports the end, or the death, of its actor.
struct Guard {
    saga: Uuid,
    server: Uuid,
    conductor: Addr<Conductor>,
    ended: Option<Ended>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.conductor.do_send(MigrationEnded { saga: self.saga, server: self.server, ended: self.ended.take() });
    }
}

/// Dies at once; for experiments.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Kill;

impl Migration {
    /// An actor for a saga in flight.
    pub fn new(world: Arc<World>, faults: FaultPoints, flight: Flight, conductor: Addr<Conductor>, renewal: Duration) -> Migration {
        let guard = Guard { saga: flight.context.saga, server: flight.context.server, conductor, ended: None };
        Migration { world, faults, flight: Some(flight), renewal, guard }
    }
}

impl Actor for Migration {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(flight) = self.flight.take() else { return ctx.stop() };
        let (world, id, epoch) = (self.world.clone(), flight.context.saga, flight.context.lease_epoch);
        ctx.run_interval(self.renewal, move |migration, ctx| {
            let world = world.clone();
            let renewed = async move { world.operations.renew(id, epoch).await };
            ctx.spawn(renewed.into_actor(migration).map(move |renewed, _, _| {
                if let Err(why) = renewed {
                    // The journal refuses the runner's next entry if it is another's by now.
                    log::warn!(migration:% = id; "a lease could not be renewed: {why}");
                }
            }));
        });
        let saga = run(self.world.clone(), self.faults.clone(), flight);
        ctx.spawn(saga.into_actor(self).map(|ended, migration, ctx| {
            migration.guard.ended = Some(ended);
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
