//! Operations that wait for the journal: a request for another operation on the same server is refused at once with the reason.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// The last reason by saga. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Stuck(Arc<Mutex<BTreeMap<Uuid, String>>>);

impl Stuck {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Uuid, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the saga waits for the journal.
    pub(in crate::actors) fn waits(&self, saga: Uuid, why: String) {
        self.known().insert(saga, why);
    }

    /// Notes that the saga goes on, or that another owner has it.
    pub(in crate::actors) fn goes_on(&self, saga: Uuid) {
        self.known().remove(&saga);
    }

    /// Returns the reason why the saga waits; none if it does not.
    pub(in crate::actors) fn reason(&self, saga: Uuid) -> Option<String> {
        self.known().get(&saga).cloned()
    }
}
