//! A conductor goes on with sagas from their journals: those of its earlier incarnation, those whose leases have run out, and those whose actors
//! died. It takes many over in one commit, so that the thousands of a killed process are soon in hand.

use std::sync::Arc;
use std::time::Duration;

use actix::fut::wrap_stream;
use actix::prelude::*;
use futures::{StreamExt, stream};
use uuid::Uuid;

use super::Conductor;
use crate::db::DbError;
use crate::db::api::leases::{TAKEN_AT_ONCE, TakeOver};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::runner::Flight;
use crate::saga::journal::Unreadable;
use crate::saga::world::World;

/// The parts that are taken over at the same time: one is read while the next is written.
const PARTS_AT_ONCE: usize = 2;
/// The pause before the next attempt to take a saga over after a failed one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Goes on with sagas from their journals.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Resume(pub Vec<Uuid>);

impl Resume {
    /// Goes on with one saga.
    pub fn one(saga: Uuid) -> Resume {
        Resume(vec![saga])
    }
}

/// The result of an attempt to take a saga over.
enum Resumed {
    Flight(Box<Flight>),
    /// Another conductor has the lease for this long.
    Others(Duration),
    /// The saga has ended.
    Over,
    /// This release cannot read the saga, for this reason.
    Parked(String),
}

/// The results of attempts to take sagas over, by saga.
type Results = Vec<(Uuid, Result<Resumed, DbError>)>;

impl Handler<Resume> for Conductor {
    type Result = ();

    fn handle(&mut self, Resume(mut sagas): Resume, ctx: &mut Self::Context) {
        // An actor that stands still goes on by itself, and learns from the journal whether it may.
        sagas.retain(|saga| self.running(*saga).is_none() && self.taking.insert(*saga));
        let parts: Vec<Vec<Uuid>> = sagas.chunks(TAKEN_AT_ONCE).map(<[Uuid]>::to_vec).collect();
        let (world, owner) = (self.parts.world.clone(), self.parts.owner.clone());
        // Not all at once: a lease begins when it is asked for, and must not run out while the database is busy with the parts before.
        let results = stream::iter(parts).map(move |part| take_over(world.clone(), owner.clone(), part)).buffered(PARTS_AT_ONCE);
        ctx.spawn(wrap_stream(results).map(|results, conductor: &mut Conductor, ctx| conductor.go_on(results, ctx)).finish());
    }
}

impl Conductor {
    /// Runs the sagas that were taken over.
    fn go_on(&mut self, results: Results, ctx: &mut Context<Self>) {
        let mut failed = Vec::new();
        for (saga, result) in results {
            self.taking.remove(&saga);
            match result {
                Ok(Resumed::Flight(flight)) => {
                    self.parts.stuck.goes_on(saga);
                    self.parts.world.env.metrics().operation_resumed();
                    self.launch(flight, ctx);
                }
                // A later round finds the saga if its lease is not renewed.
                Ok(Resumed::Others(left)) => {
                    log::debug!(migration:% = saga; "another conductor has a saga, for {left:?} unless it renews its lease")
                }
                Ok(Resumed::Over) => {}
                Ok(Resumed::Parked(reason)) => {
                    log::error!(migration:% = saga; "an operation waits for an operator: {reason}");
                    self.parts.stuck.needs_operator(saga, Reason::public(reason));
                }
                // Another conductor was faster.
                Err(DbError::Conflict(why)) => log::debug!(migration:% = saga; "{why}"),
                Err(error) => {
                    log::warn!(migration:% = saga; "a saga cannot be taken over yet: {error}");
                    self.parts.stuck.waits(saga, reason!("{error}"));
                    failed.push(saga);
                }
            }
        }
        if !failed.is_empty() {
            ctx.notify_later(Resume(failed), RETRY_PAUSE);
        }
    }
}

async fn take_over(world: Arc<World>, owner: String, sagas: Vec<Uuid>) -> Results {
    let takeovers = match world.operations.take_over_all(sagas.clone(), &owner).await {
        Ok(takeovers) => takeovers,
        // The database will not answer about each saga either.
        Err(DbError::Unavailable { name, reason }) => {
            let unavailable = || DbError::Unavailable { name: name.clone(), reason: reason.clone() };
            sagas.into_iter().map(|saga| (saga, Err(unavailable()))).collect()
        }
        // A row that cannot be read keeps no other saga from going on.
        Err(_) => {
            let mut each = Vec::with_capacity(sagas.len());
            for saga in sagas {
                each.push((saga, world.operations.take_over(saga, &owner).await));
            }
            each
        }
    };
    let mut resumed = Vec::with_capacity(takeovers.len());
    for (saga, takeover) in takeovers {
        let result = match takeover {
            Ok(takeover) => resume(&world, saga, takeover).await,
            Err(error) => Err(error),
        };
        resumed.push((saga, result));
    }
    resumed
}

async fn resume(world: &World, saga: Uuid, takeover: TakeOver) -> Result<Resumed, DbError> {
    match takeover {
        TakeOver::Taken(record, entries) => match Flight::resumed(&record, &entries) {
            Ok(flight) => Ok(Resumed::Flight(Box::new(flight))),
            Err(Unreadable(reason)) => {
                world.operations.park(saga, record.lease.epoch, reason.clone()).await?;
                Ok(Resumed::Parked(reason))
            }
        },
        TakeOver::Held(left) => Ok(Resumed::Others(left)),
        TakeOver::Over => Ok(Resumed::Over),
    }
}
