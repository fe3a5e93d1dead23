//! The list of injected faults, written while they happen. The verdict uses it.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::chaos::point::Moment;

/// A fault that has happened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Injected {
    /// The id of the fault in the log and the notifications of a running service.
    pub id: Uuid,
    /// Milliseconds after the beginning.
    pub at_ms: u64,
    /// The fault's number in the file, from 0.
    pub fault: usize,
    /// The fault in words.
    pub what: String,
    /// The saga at whose step it happened.
    pub saga: Option<Uuid>,
    /// The saga's kind, as `resize`.
    pub kind: Option<String>,
    pub server: Option<Uuid>,
    /// The step, as `act prepare_at_target`, if it happened at a step.
    pub step: Option<String>,
    /// The moment of the step.
    pub moment: Option<Moment>,
    /// True if it affected only that saga. Others affect all sagas in flight.
    pub alone: bool,
    /// The end of a lasting fault.
    pub over_ms: Option<u64>,
    /// The reason why it could not happen.
    pub failed: Option<String>,
}

/// The list. Clones share it.
#[derive(Clone, Default)]
pub struct Record {
    /// The root of the faults' ids.
    root: Uuid,
    injected: Arc<Mutex<Vec<Injected>>>,
}

impl Record {
    /// Makes an empty list whose faults have ids under this root.
    pub fn under(root: Uuid) -> Record {
        Record { root, ..Record::default() }
    }

    /// Adds a fault, gives it an id, and returns its index.
    pub fn add(&self, injected: Injected) -> usize {
        let mut list = self.injected.lock();
        let place = list.len();
        list.push(Injected { id: Uuid::new_v5(&self.root, place.to_string().as_bytes()), ..injected });
        place
    }

    /// Returns the fault at this index.
    pub fn at(&self, place: usize) -> Option<Injected> {
        self.injected.lock().get(place).cloned()
    }

    /// Replaces the words of a fault once its places are known.
    pub fn describe(&self, place: usize, what: String) {
        if let Some(injected) = self.injected.lock().get_mut(place) {
            injected.what = what;
        }
    }

    /// Records the end of a fault.
    pub fn ended(&self, place: usize, at_ms: u64) {
        if let Some(injected) = self.injected.lock().get_mut(place) {
            injected.over_ms = Some(at_ms);
        }
    }

    /// Records that a fault could not happen.
    pub fn failed(&self, place: usize, why: &str) {
        if let Some(injected) = self.injected.lock().get_mut(place) {
            injected.failed = Some(why.to_owned());
        }
    }

    /// Returns all faults so far, in order.
    pub fn all(&self) -> Vec<Injected> {
        self.injected.lock().clone()
    }
}
