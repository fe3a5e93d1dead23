//! Operations that cannot go on because a database does not take in their next line: whoever asks for another one on the same server is
//! told why at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// By saga, the last reason. Cheap to clone; clones know the same.
#[derive(Clone, Default)]
pub struct Stuck(Arc<Mutex<BTreeMap<Uuid, String>>>);

impl Stuck {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Uuid, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The saga waits for the journal.
    pub(in crate::actors) fn waits(&self, saga: Uuid, why: String) {
        self.known().insert(saga, why);
    }

    /// The journal took something of the saga in, or another owner has it.
    pub(in crate::actors) fn goes_on(&self, saga: Uuid) {
        self.known().remove(&saga);
    }

    /// Why the saga waits, if it does.
    pub(in crate::actors) fn reason(&self, saga: Uuid) -> Option<String> {
        self.known().get(&saga).cloned()
    }
}
