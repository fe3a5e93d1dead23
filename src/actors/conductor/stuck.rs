//! Operations that wait for the journal: a request for another operation on the same server is refused at once with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

/// The last reason by saga. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Stuck(Arc<Mutex<BTreeMap<Uuid, String>>>);

impl Stuck {
    /// Notes that the saga waits for the journal.
    pub(in crate::actors) fn waits(&self, saga: Uuid, why: String) {
        self.0.lock().insert(saga, why);
    }

    /// Notes that the saga goes on, or that another owner has it.
    pub(in crate::actors) fn goes_on(&self, saga: Uuid) {
        self.0.lock().remove(&saga);
    }

    /// Returns the reason why the saga waits; none if it does not.
    pub(in crate::actors) fn reason(&self, saga: Uuid) -> Option<String> {
        self.0.lock().get(&saga).cloned()
    }
}
