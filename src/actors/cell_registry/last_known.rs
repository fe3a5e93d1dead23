//! What servers were when they were last read: for callers who would rather see an old record of a server than none while its
//! cell does not answer. Kept in memory, bounded, and never taken for what a cell says now.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::ServerRecord;
use crate::db::api::instance_mappings::InstanceMapping;

/// A server as it was.
#[derive(Clone, PartialEq, Debug)]
pub struct LastKnown {
    pub record: ServerRecord,
    /// When it was read.
    pub at: DateTime<Utc>,
}

/// The servers that were read last, so many of them.
pub(super) struct LastKnownServers {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// With the number of the reading.
    servers: BTreeMap<Uuid, (u64, LastKnown)>,
    /// By the number of the reading.
    order: BTreeMap<u64, Uuid>,
    readings: u64,
}

impl LastKnownServers {
    /// Of at most so many; 0 keeps none.
    pub fn new(most: usize) -> LastKnownServers {
        LastKnownServers { most, kept: Mutex::default() }
    }

    /// These were read from their cells now.
    pub fn read<'a>(&self, records: impl IntoIterator<Item = &'a ServerRecord>, now: DateTime<Utc>) {
        if self.most == 0 {
            return;
        }
        let mut kept = self.kept();
        for record in records.into_iter().filter(|record| record.cell.is_some()) {
            kept.forget(record.instance.uuid);
            kept.readings += 1;
            let (number, uuid) = (kept.readings, record.instance.uuid);
            kept.servers.insert(uuid, (number, LastKnown { record: record.clone(), at: now }));
            kept.order.insert(number, uuid);
            if kept.servers.len() > self.most
                && let Some((_, oldest)) = kept.order.pop_first()
            {
                kept.servers.remove(&oldest);
            }
        }
    }

    /// There is no such server any more.
    pub fn forget(&self, uuid: Uuid) {
        self.kept().forget(uuid);
    }

    /// What was read of a server in the cell of this name, which its mapping still names.
    pub fn of(&self, cell: &str, mapping: &InstanceMapping) -> Option<LastKnown> {
        let kept = self.kept();
        let (_, known) = kept.servers.get(&mapping.instance_uuid)?;
        let is_its = known.record.cell.as_deref() == Some(cell) && known.record.instance.project_id == mapping.project_id;
        is_its.then(|| known.clone())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget(&mut self, uuid: Uuid) {
        if let Some((number, _)) = self.servers.remove(&uuid) {
            self.order.remove(&number);
        }
    }
}
