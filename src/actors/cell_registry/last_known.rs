//! Remembers servers as they were last read, for callers who prefer an old record to none while the cell does not answer. Bounded, in
//! memory, and never shown as the present state.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use uuid::Uuid;

use super::ServerRecord;
use crate::db::api::instance_mappings::InstanceMapping;

/// A remembered server.
#[derive(Clone, PartialEq, Debug)]
pub struct LastKnown {
    pub record: ServerRecord,
    /// The time of the reading.
    pub at: DateTime<Utc>,
}

/// The servers that were read last, at most a given number.
pub(super) struct LastKnownServers {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By server, with the number of the reading.
    servers: BTreeMap<Uuid, (u64, LastKnown)>,
    /// By the number of the reading.
    order: BTreeMap<u64, Uuid>,
    readings: u64,
}

impl LastKnownServers {
    /// Makes a memory of at most this many servers; 0 remembers none.
    pub fn new(most: usize) -> LastKnownServers {
        LastKnownServers { most, kept: Mutex::default() }
    }

    /// Remembers servers that have just been read from their cells.
    pub fn read<'a>(&self, records: impl IntoIterator<Item = &'a ServerRecord>, now: DateTime<Utc>) {
        if self.most == 0 {
            return;
        }
        let mut kept = self.kept.lock();
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

    /// Forgets a server that is gone.
    pub fn forget(&self, uuid: Uuid) {
        self.kept.lock().forget(uuid);
    }

    /// Returns the remembered record of a server that its mapping still places in this cell.
    pub fn of(&self, cell: &str, mapping: &InstanceMapping) -> Option<LastKnown> {
        let kept = self.kept.lock();
        let (_, known) = kept.servers.get(&mapping.instance_uuid)?;
        let is_its = known.record.cell.as_deref() == Some(cell) && known.record.instance.project_id == mapping.project_id;
        is_its.then(|| known.clone())
    }
}

impl Kept {
    fn forget(&mut self, uuid: Uuid) {
        if let Some((number, _)) = self.servers.remove(&uuid) {
            self.order.remove(&number);
        }
    }
}
