//! Remembers servers as they were last read, for callers who prefer an old record to none while the cell does not answer. Bounded, in
//! memory, and never shown as the present state.

use std::num::NonZeroUsize;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lru::LruCache;
use parking_lot::Mutex;
use uuid::Uuid;

use super::ServerRecord;
use crate::domain::instance_mapping::InstanceMapping;

/// A remembered server.
#[derive(Clone, PartialEq, Debug)]
pub struct LastKnown {
    pub record: Arc<ServerRecord>,
    /// The time of the reading.
    pub at: DateTime<Utc>,
}

/// The servers that were read last, at most a given number. None if the number is 0.
pub(super) struct LastKnownServers(Option<Mutex<LruCache<Uuid, LastKnown>>>);

impl LastKnownServers {
    /// Makes a memory of at most this many servers; 0 remembers none.
    pub fn new(most: usize) -> LastKnownServers {
        LastKnownServers(NonZeroUsize::new(most).map(|most| Mutex::new(LruCache::sparse(most))))
    }

    /// Remembers servers that have just been read from their cells.
    pub fn read<'a>(&self, records: impl IntoIterator<Item = &'a Arc<ServerRecord>>, now: DateTime<Utc>) {
        let Some(cache) = &self.0 else { return };
        let mut cache = cache.lock();
        for record in records.into_iter().filter(|record| record.cell.is_some()) {
            cache.put(record.instance.uuid, LastKnown { record: Arc::clone(record), at: now });
        }
    }

    /// Forgets a server that is gone.
    pub fn forget(&self, uuid: Uuid) {
        if let Some(cache) = &self.0 {
            cache.lock().pop(&uuid);
        }
    }

    /// Returns the remembered record of a server that its mapping still places in this cell.
    pub fn of(&self, cell: &str, mapping: &InstanceMapping) -> Option<LastKnown> {
        let cache = self.0.as_ref()?.lock();
        // A look does not count as a reading: the oldest reading is dropped first.
        let entry = cache.peek(&mapping.instance_uuid)?;
        let is_its = entry.record.cell.as_deref() == Some(cell) && entry.record.instance.project_id == mapping.project_id;
        is_its.then(|| entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::flavor::Flavor;
    use crate::domain::instance::Instance;
    use crate::domain::instance_bundle::InstanceBundle;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn record(number: u128) -> Arc<ServerRecord> {
        in_cell(number, Some("cell1"))
    }

    fn in_cell(number: u128, cell: Option<&str>) -> Arc<ServerRecord> {
        let instance = Instance::new(Uuid::from_u128(number), "project", "user", "name", Flavor::default(), NOW);
        Arc::new(ServerRecord { cell: cell.map(str::to_owned), ..ServerRecord::of_build(InstanceBundle::new(instance)) })
    }

    fn mapping(number: u128) -> InstanceMapping {
        InstanceMapping {
            instance_uuid: Uuid::from_u128(number),
            cell_uuid: None,
            project_id: "project".into(),
            user_id: None,
            queued_for_delete: Some(false),
            delete_request: None,
            created_at: NOW,
            updated_at: None,
        }
    }

    fn numbers_in(servers: &LastKnownServers) -> Vec<u128> {
        (1..=4).filter(|number| servers.of("cell1", &mapping(*number)).is_some()).collect()
    }

    #[test]
    fn the_servers_that_were_read_last_are_known() {
        let servers = LastKnownServers::new(2);
        servers.read(&[record(1), record(2)], NOW);
        servers.read(&[record(1)], NOW);
        assert!(servers.of("cell1", &mapping(2)).is_some());
        servers.read(&[record(3)], NOW);
        assert_eq!(numbers_in(&servers), [1, 3], "a look at 2 was no reading");
        servers.forget(Uuid::from_u128(3));
        servers.read(&[in_cell(4, None)], NOW);
        assert_eq!(numbers_in(&servers), [1]);
        assert!(servers.of("cell2", &mapping(1)).is_none(), "it lies in another cell");
    }

    #[test]
    fn a_memory_of_no_servers_knows_none() {
        let servers = LastKnownServers::new(0);
        servers.read(&[record(1)], NOW);
        assert_eq!(numbers_in(&servers), Vec::<u128>::new());
    }
}
