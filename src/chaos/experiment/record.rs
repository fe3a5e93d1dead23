//! What went wrong when, as it is done: the list of injected faults that a verdict is made of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::chaos::point::Moment;

/// A fault that has happened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Injected {
    /// As the log and the notifications of a running service have it.
    pub id: Uuid,
    /// Milliseconds after the beginning.
    pub at_ms: u64,
    /// The number of the fault in the file, from 0.
    pub fault: usize,
    /// What it was, in words.
    pub what: String,
    /// The saga at whose step it happened.
    pub saga: Option<Uuid>,
    /// Which kind of saga that is, as `resize`.
    pub kind: Option<String>,
    pub server: Option<Uuid>,
    /// `act prepare_at_target`, where it happened at a step.
    pub step: Option<String>,
    /// At which moment of it.
    pub moment: Option<Moment>,
    /// It met nobody but that saga; others met those that were in flight too.
    pub alone: bool,
    /// When it was over, for one that lasts.
    pub over_ms: Option<u64>,
    /// Why it could not be done after all.
    pub failed: Option<String>,
}

/// The list. Clones share it.
#[derive(Clone, Default)]
pub struct Record {
    /// Under it each fault has an id of its own.
    root: Uuid,
    injected: Arc<Mutex<Vec<Injected>>>,
}

impl Record {
    /// An empty one, whose faults have ids under this.
    pub fn under(root: Uuid) -> Record {
        Record { root, ..Record::default() }
    }

    /// Adds one and gives it its id; gives its place in the list.
    pub fn add(&self, injected: Injected) -> usize {
        let mut list = self.list();
        let place = list.len();
        list.push(Injected { id: Uuid::new_v5(&self.root, place.to_string().as_bytes()), ..injected });
        place
    }

    /// The fault at this place.
    pub fn at(&self, place: usize) -> Option<Injected> {
        self.list().get(place).cloned()
    }

    /// What the fault at this place was, once its places are known.
    pub fn was(&self, place: usize, what: String) {
        if let Some(injected) = self.list().get_mut(place) {
            injected.what = what;
        }
    }

    /// The fault at this place is over.
    pub fn over(&self, place: usize, at_ms: u64) {
        if let Some(injected) = self.list().get_mut(place) {
            injected.over_ms = Some(at_ms);
        }
    }

    /// It could not be done.
    pub fn failed(&self, place: usize, why: &str) {
        if let Some(injected) = self.list().get_mut(place) {
            injected.failed = Some(why.to_owned());
        }
    }

    /// All so far, in order.
    pub fn all(&self) -> Vec<Injected> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Injected>> {
        self.injected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
