//! The bound on operations at work in a process. Further operations are accepted and wait for a turn, in the order in which they came.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::domain::reason;
use crate::env::guard::{Guard, stands};
use crate::metrics::{Level, Metrics, Within};
use crate::saga::context::Context;
use crate::saga::refusal::Refusal;

/// The maximum numbers of operations in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of those that copy disks, and as many of the others, may be at work.
    pub in_flight: usize,
    /// May have been accepted and wait for a turn.
    pub waiting: usize,
}

/// The room for operations at work, which the conductors of a process share. Cheap to clone.
#[derive(Clone)]
pub struct Room {
    limits: Limits,
    /// Turns of operations that copy disks. They take minutes, so the others have turns of their own.
    copies: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// Wakes the operations that wait.
    waiting: Arc<Mutex<BTreeMap<Uuid, Arc<Notify>>>>,
    /// The number of those that wait, for metrics.
    shown: Level,
}

/// A turn of an operation. When it is dropped, the next operation has its turn.
pub struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

/// An operation that waits, until this is dropped.
struct Waiting<'a> {
    room: &'a Room,
    saga: Uuid,
    woken: Arc<Notify>,
    _shown: Within,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.room.waiting.lock();
        // A successor of this operation's actor may wait under the same id.
        if waiting.get(&self.saga).is_some_and(|registered| Arc::ptr_eq(registered, &self.woken)) {
            waiting.remove(&self.saga);
        }
    }
}

impl Room {
    /// Makes a room with these limits, whose waiting operations these metrics show.
    pub fn new(limits: Limits, metrics: &Metrics) -> Room {
        let turns = || Arc::new(Semaphore::new(limits.in_flight.min(Semaphore::MAX_PERMITS)));
        Room { limits, copies: turns(), others: turns(), waiting: Arc::default(), shown: metrics.operations_waiting() }
    }

    /// Waits for the operation's turn. A delete has it at once, because it makes room. An operation that [`Room::wake`] names has it at once,
    /// too: it is cancelled, and undoes only its acceptance.
    pub async fn turn(&self, context: &Context) -> Turn {
        let Some(turns) = self.turns_of(context) else { return Turn { _permit: None } };
        if let Ok(permit) = turns.clone().try_acquire_owned() {
            return Turn { _permit: Some(permit) };
        }
        let woken = Arc::new(Notify::new());
        self.waiting.lock().insert(context.saga, woken.clone());
        let waiting = Waiting { room: self, saga: context.saga, woken, _shown: self.shown.enter() };
        log::info!(server:% = context.server, migration:% = context.saga; "{} waits until fewer operations are at work ([migration] max_in_flight)", context.kind);
        tokio::select! {
            biased;
            () = waiting.woken.notified() => Turn { _permit: None },
            permit = turns.clone().acquire_owned() => Turn { _permit: permit.ok() },
        }
    }

    /// Gives a cancelled operation its turn, if it waits.
    pub fn wake(&self, saga: Uuid) {
        if let Some(woken) = self.waiting.lock().get(&saga) {
            woken.notify_one();
        }
    }

    /// True if an operation waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Refuses an operation that would wait behind the maximum number of waiting ones.
    pub fn check(&self, context: &Context) -> Result<(), Refusal> {
        let full = self.turns_of(context).is_some_and(|turns| turns.available_permits() == 0);
        if stands(Guard::OperationsLimit) && full && self.waiting.lock().len() >= self.limits.waiting {
            let Limits { in_flight, waiting } = self.limits;
            return Err(Refusal::Unavailable(reason!("{in_flight} operations are in progress and {waiting} wait, which is the limit")));
        }
        Ok(())
    }

    fn turns_of(&self, context: &Context) -> Option<&Arc<Semaphore>> {
        let rules = context.part().rules();
        match rules.copies_disks {
            _ if !rules.waits_for_turn => None,
            true => Some(&self.copies),
            false => Some(&self.others),
        }
    }
}
