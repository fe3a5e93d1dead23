//! The periodic work: overdue resizes are confirmed, queued deletes are carried out, records follow guests that went off, servers give up
//! ports that are gone, servers that were shelved for long leave their hosts, soft-deleted ones are deleted for good, drains go on, server
//! groups move as a whole, and old records are removed.
//!
//! Each kind of work runs for itself, and all but the queued deletes also per cell: a cell that hangs delays neither the other cells nor other work.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use tokio::time::Instant;

use super::supervision::{DeathGuard, supervised};
use crate::reconcilers::drains::{self, Drains};
use crate::reconcilers::offload::OffloadOptions;
use crate::reconcilers::queued_deletes::QueuedDeletes;
use crate::reconcilers::retention::RetentionOptions;
use crate::reconcilers::{PeriodicParts, confirm, group_moves, offload, ports, power, reclaim, retention};

/// Starts all work that is not running.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RunRound;

/// A piece of work that runs at most once at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Work {
    Confirm(String),
    Drains,
    FollowPorts(String),
    FollowPower(String),
    GroupMoves,
    Offload(String),
    QueuedDeletes,
    Reclaim(String),
    /// Of one cell; of the other databases if none is named.
    Retention(Option<String>),
}

/// Does the periodic work.
pub struct Periodic {
    parts: PeriodicParts,
    busy: BTreeSet<Work>,
    /// The time of the last run of the retention; none before the first.
    retained: Option<Instant>,
    /// The time of the last count of moves that wait for a confirm; none before the first.
    unconfirmed_counted: Option<Instant>,
    /// The time of the last look at shelved servers; none before the first.
    offloaded: Option<Instant>,
    /// The time of the last look at soft-deleted servers; none before the first.
    reclaimed: Option<Instant>,
    /// The time of the last look for ports that are gone, at first of the start.
    ports_followed: Instant,
    deletes: Arc<QueuedDeletes>,
    drains: Arc<Drains>,
    _guard: Option<DeathGuard>,
}

impl Periodic {
    /// Makes one incarnation of the actor; `guard` reports its death.
    pub fn new(parts: PeriodicParts, guard: Option<DeathGuard>) -> Periodic {
        let deletes = Arc::new(QueuedDeletes::new(parts.world.clone(), parts.conductor.clone()));
        let drains = Arc::new(Drains::new(parts.world.clone(), parts.conductor.clone(), &parts.controller));
        let (retained, unconfirmed_counted, offloaded, reclaimed, ports_followed) = (None, None, None, None, Instant::now());
        Periodic {
            parts,
            busy: BTreeSet::new(),
            retained,
            unconfirmed_counted,
            offloaded,
            reclaimed,
            ports_followed,
            deletes,
            drains,
            _guard: guard,
        }
    }

    fn start_per_cell(&mut self, work: impl Fn(String) -> Work, ctx: &mut Context<Self>) {
        for cell in self.parts.world.cells.keys().cloned().collect::<Vec<_>>() {
            self.start(work(cell), ctx);
        }
    }

    fn start(&mut self, work: Work, ctx: &mut Context<Self>) {
        if !self.busy.insert(work.clone()) {
            return;
        }
        let (parts, deletes, drains, doing) = (self.parts.clone(), self.deletes.clone(), self.drains.clone(), work.clone());
        let done = async move {
            match doing {
                Work::Confirm(cell) => confirm::confirm_overdue(&parts, &cell).await,
                Work::Drains => drains.run().await,
                Work::FollowPorts(cell) => ports::follow(&parts, &cell).await,
                Work::FollowPower(cell) => power::follow(&parts.world, &cell).await,
                Work::GroupMoves => group_moves::advance_all(&parts).await,
                Work::Offload(cell) => offload::offload_due(&parts, &cell).await,
                Work::QueuedDeletes => deletes.run_round().await,
                Work::Reclaim(cell) => reclaim::reclaim_due(&parts, &cell).await,
                Work::Retention(cell) => retention::run(&parts, cell.as_deref()).await,
            }
        };
        ctx.spawn(done.into_actor(self).map(move |(), periodic, _| {
            periodic.busy.remove(&work);
        }));
    }
}

impl Actor for Periodic {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.parts.options.interval, |_, ctx| ctx.notify(RunRound));
        ctx.run_interval(drains::PACE, |periodic, ctx| periodic.start(Work::Drains, ctx));
    }
}

impl Handler<RunRound> for Periodic {
    type Result = ();

    fn handle(&mut self, _: RunRound, ctx: &mut Self::Context) {
        self.start(Work::QueuedDeletes, ctx);
        self.start(Work::GroupMoves, ctx);
        self.start_per_cell(Work::FollowPower, ctx);
        let confirms = !self.parts.options.resize_confirm_window.is_zero();
        if confirms || self.unconfirmed_counted.is_none_or(|last| last.elapsed() >= confirm::COUNT_EVERY) {
            self.unconfirmed_counted = Some(Instant::now());
            self.start_per_cell(Work::Confirm, ctx);
        }
        let OffloadOptions { after, interval } = self.parts.options.offload;
        if !after.is_zero() && self.offloaded.is_none_or(|last| last.elapsed() >= interval) {
            self.offloaded = Some(Instant::now());
            self.start_per_cell(Work::Offload, ctx);
        }
        let reclaim_after = self.parts.options.reclaim_after;
        if !reclaim_after.is_zero() && self.reclaimed.is_none_or(|last| last.elapsed() >= reclaim::pause(reclaim_after)) {
            self.reclaimed = Some(Instant::now());
            self.start_per_cell(Work::Reclaim, ctx);
        }
        if self.ports_followed.elapsed() >= self.parts.options.ports_interval {
            self.ports_followed = Instant::now();
            self.start_per_cell(Work::FollowPorts, ctx);
        }
        let RetentionOptions { interval, .. } = self.parts.options.retention;
        if !interval.is_zero() && self.retained.is_none_or(|last| last.elapsed() >= interval) {
            self.retained = Some(Instant::now());
            self.start_per_cell(|cell| Work::Retention(Some(cell)), ctx);
            self.start(Work::Retention(None), ctx);
        }
    }
}

supervised!(Periodic);
