//! Operations that wait for the journal or for an operator: a request for another operation on the same server is refused at once with the
//! reason.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::domain::reason::Reason;
use crate::domain::saga_record::LeftAlone;
use crate::metrics::{Level, Metrics, Within};

/// The last reason by saga. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Stuck {
    reasons: Arc<Mutex<BTreeMap<Uuid, (Reason, Within)>>>,
    waiting_for_journal: Level,
    waiting_for_operator: Level,
}

impl Stuck {
    /// Makes an empty list that these metrics show.
    pub(in crate::actors) fn counting(metrics: &Metrics) -> Stuck {
        let (waiting_for_journal, waiting_for_operator) = (metrics.operations_stuck("journal"), metrics.operations_stuck("operator"));
        Stuck { reasons: Arc::default(), waiting_for_journal, waiting_for_operator }
    }

    /// Notes that the saga waits for the journal.
    pub(in crate::actors) fn waits(&self, saga: Uuid, why: Reason) {
        self.reasons.lock().insert(saga, (why, self.waiting_for_journal.enter()));
    }

    /// Notes that the saga waits for an operator.
    pub(in crate::actors) fn needs_operator(&self, saga: Uuid, why: Reason) {
        self.reasons.lock().insert(saga, (why, self.waiting_for_operator.enter()));
    }

    /// Notes that these sagas wait for a release that knows their tables. The log names each once.
    pub(in crate::actors) fn leave_alone(&self, left: &[LeftAlone]) {
        let mut reasons = self.reasons.lock();
        let (mut sagas, mut tables) = (Vec::new(), BTreeSet::new());
        for LeftAlone { saga, table, .. } in left {
            if let Entry::Vacant(new) = reasons.entry(*saga) {
                new.insert((Reason::public(table.reason()), self.waiting_for_operator.enter()));
                sagas.push(saga.to_string());
                tables.insert(table.to_string());
            }
        }
        if !sagas.is_empty() {
            let tables = tables.into_iter().collect::<Vec<_>>().join(", ");
            log::error!(
                "{} operations are left alone until the release that began them runs again, because this one knows no {tables}: {}",
                sagas.len(),
                sagas.join(", ")
            );
        }
    }

    /// Notes that the saga goes on, or that another owner has it.
    pub(in crate::actors) fn goes_on(&self, saga: Uuid) {
        self.reasons.lock().remove(&saga);
    }

    /// Returns the reason why the saga waits; none if it does not.
    pub(in crate::actors) fn reason(&self, saga: Uuid) -> Option<Reason> {
        self.reasons.lock().get(&saga).map(|(why, _)| why.clone())
    }
}
