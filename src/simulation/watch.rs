//! The watch: checks the rules that always hold (INVARIANTS I1, I2, I4, I7, I8, I9, I13) after each step of each saga, and whenever a guest
//! starts or stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellshift_embedded::placement::EmbeddedPlacement;
use futures::FutureExt;
use parking_lot::Mutex;
use uuid::Uuid;

use super::trace::Trace;
use crate::chaos::audit::journal::{self, Tables};
use crate::chaos::audit::{Snapshot, Violation};
use crate::chaos::experiment::{Witness, short};
use crate::chaos::point::{Moment, Point};
use crate::db::api::operations::{Operations, WatchedSaga};
use crate::db::api::ownership::Ownership;
use crate::db::{Db, DbError};
use crate::domain::fence::Fence;
use crate::domain::saga_record::JournalEntry;
use crate::services::placement::PlacementService;
use crate::virt::simulated::Simulated;
use crate::virt::{Hypervisor, StopCause};

/// The maximum number of recorded violations; more tell nothing new.
const MOST: usize = 20;

/// The watch over one run. It has separate handles on the databases, so that no outage blinds it.
pub struct Watch {
    trace: Trace,
    /// None if the databases do not answer at once: then the audit checks them at the end.
    records: Option<Records>,
    state: Mutex<State>,
}

struct Records {
    operations: Operations,
    /// Placement's own handle, for its count of writes.
    placement_db: Db,
    placement: EmbeddedPlacement,
}

#[derive(Default)]
struct State {
    /// The drivers of the present life, by host.
    drivers: BTreeMap<String, Arc<Simulated>>,
    violations: Vec<Violation>,
    /// The highest fence seen per server.
    fences: BTreeMap<Uuid, (i64, i64)>,
    /// The number of placement's writes at the last check.
    placement_writes: u64,
    /// The generation per provider.
    generations: BTreeMap<Uuid, i64>,
    /// The journals read so far. Journals only grow, so only new entries are read; the audit reads them whole at the end.
    journals: BTreeMap<Uuid, Vec<JournalEntry>>,
    tables: Tables,
    /// The last read ownership, with the API database's number of transactions at that time.
    ownership: BTreeMap<Uuid, (u64, Option<Ownership>)>,
    /// The highest attempt that reached a host, per host and server.
    delivered: BTreeMap<(String, Uuid), i64>,
    /// The number of times that a guest started and stopped under an attempt, since its host was last away.
    turns: BTreeMap<(String, Uuid, i64), (u32, u32)>,
}

impl Watch {
    /// Watches the databases behind these handles.
    pub fn new(trace: Trace, api: &Db, placement_db: &Db) -> Watch {
        let operations = Operations::new(api.named("watch"));
        let placement = EmbeddedPlacement::new(placement_db.named("watch"));
        let records = Some(Records { operations, placement_db: placement_db.clone(), placement });
        Watch { trace, records, state: Mutex::default() }
    }

    /// Watches only the hypervisors.
    pub fn without_databases(trace: Trace) -> Watch {
        Watch { trace, records: None, state: Mutex::default() }
    }

    /// Returns the violations.
    pub fn violations(&self) -> Vec<Violation> {
        self.state.lock().violations.clone()
    }

    /// Records a violation.
    pub fn add_violation(&self, invariant: &str, subject: String, message: String) {
        self.trace.tell(format!("VIOLATION {invariant} {subject}: {message}"));
        let mut state = self.state.lock();
        if state.violations.len() < MOST {
            state.violations.push(Violation { invariant: invariant.to_owned(), subject, message });
        }
    }

    /// Adds a host's driver of this life.
    pub fn opened(&self, host: &str, driver: Arc<Simulated>) {
        self.state.lock().drivers.insert(host.to_owned(), driver);
    }

    /// Returns the guests that wait until their host learns whether it may run them: host and server.
    pub fn interrupted_guests(&self) -> Vec<(String, Uuid)> {
        let drivers = self.state.lock().drivers.clone();
        let mut waiting = Vec::new();
        for (host, driver) in drivers {
            let guests = driver.guests().unwrap_or_default();
            for guest in guests.into_iter().filter(|guest| guest.defined && guest.stopped_by == Some(StopCause::HostDown)) {
                waiting.push((host.clone(), guest.spec.server));
            }
        }
        waiting
    }

    /// Notes that a host has lost its guests: interrupted guests may start once more under the same attempt.
    pub fn interrupted(&self, host: &str) {
        self.trace.note(format!("guests {host} interrupted"));
        self.state.lock().turns.retain(|(name, ..), _| name != host);
    }

    /// Checks a guest that started or stopped: I7, and after a start I1 and I2.
    pub fn turned(&self, host: &str, server: Uuid, on: bool) {
        self.trace.note(format!("guest  {} {} on {host}", short(server), if on { "runs" } else { "is off" }));
        let attempt = self.state.lock().delivered.get(&(host.to_owned(), server)).copied().unwrap_or_default();
        let (ons, offs) = {
            let mut state = self.state.lock();
            let turns = state.turns.entry((host.to_owned(), server, attempt)).or_default();
            if on {
                turns.0 += 1
            } else {
                turns.1 += 1
            }
            *turns
        };
        if ons.max(offs) > 1 {
            let message = format!("under attempt {attempt} it went on {ons} times and off {offs} times on {host}, expected once at most");
            self.add_violation("I7", format!("server {server}"), message);
        }
        self.guests_of(server);
    }

    /// Returns the server's ownership row, read again if the database may have changed. None if it cannot be read.
    fn ownership_of(&self, server: Uuid) -> Option<Option<Ownership>> {
        let written = self.records.as_ref()?.operations.db().calls().transactions;
        if let Some((_, row)) = self.state.lock().ownership.get(&server).filter(|(when, _)| *when == written) {
            return Some(row.clone());
        }
        let row = self.ask(|records| records.operations.ownership(server))?;
        self.state.lock().ownership.insert(server, (written, row.clone()));
        Some(row)
    }

    /// Checks I1 and I2: at most one guest runs, on the owner, started for its epoch; and I13 for the server's counters.
    fn guests_of(&self, server: Uuid) {
        let running: Vec<(String, i64)> = {
            let state = self.state.lock();
            state.drivers.iter().filter_map(|(host, driver)| driver.runs_for(server).map(|epoch| (host.clone(), epoch))).collect()
        };
        let subject = format!("server {server}");
        if running.len() > 1 {
            let hosts: Vec<&str> = running.iter().map(|(host, _)| host.as_str()).collect();
            self.add_violation(
                "I1",
                subject.clone(),
                format!("its guest runs on {} at once, expected on one host at most", hosts.join(" and ")),
            );
        }
        let Some(row) = self.ownership_of(server) else { return };
        let fence = row.as_ref().map_or((0, 0), |row| (row.epoch, row.attempt));
        for (host, epoch) in running {
            let owner = row.as_ref().and_then(|row| row.owner.as_ref());
            if owner.is_none_or(|(_, owner)| *owner != host) || epoch != fence.0 {
                let message = format!(
                    "its guest runs on {host}, started for epoch {epoch}, expected only on its owner {} for epoch {}",
                    owner.map_or("nobody", |(_, host)| host.as_str()),
                    fence.0
                );
                self.add_violation("I2", subject.clone(), message);
            }
        }
        let before = self.state.lock().fences.insert(server, fence).unwrap_or_default();
        if fence.0 < before.0 || fence.1 < before.1 {
            self.add_violation("I13", subject, format!("its fence went from {before:?} to {fence:?}, expected it never to fall"));
        }
    }

    /// Checks I8, I9, and I13 for attempts, with the audit's rules.
    fn journal_of(&self, saga: Uuid) {
        let mut entries = self.state.lock().journals.remove(&saga).unwrap_or_default();
        let written = self.records.as_ref().map_or(0, |records| records.operations.db().calls().transactions);
        let Some(Some(watched)) = self.ask(|records| records.operations.watched(saga, entries.len())) else { return };
        let WatchedSaga { record, added, ownership } = watched;
        entries.extend(added);
        let server = record.server;
        let snapshot = Snapshot {
            sagas: vec![record],
            journals: [(saga, entries)].into(),
            ownership: ownership.clone().map(|row| (server, row)).into_iter().collect(),
            ..Snapshot::default()
        };
        let violations = {
            let mut state = self.state.lock();
            state.ownership.insert(server, (written, ownership));
            journal::check_again(&snapshot, &mut state.tables)
        };
        for violation in violations {
            self.add_violation(&violation.invariant, violation.subject, violation.message);
        }
        self.state.lock().journals.extend(snapshot.journals);
    }

    /// Checks I4, and I13 for the providers' generations.
    fn placement(&self) {
        let Some(records) = &self.records else { return };
        let writes = records.placement_db.writes();
        if std::mem::replace(&mut self.state.lock().placement_writes, writes) == writes {
            return;
        }
        let Some(Ok(providers)) = records.placement.providers().now_or_never() else { return };
        for provider in providers {
            for (class, inventory) in &provider.inventories {
                let used = provider.usages.get(class).copied().unwrap_or_default();
                if used > inventory.capacity() {
                    let message = format!("{used} of {class} is allocated, expected at most {}", inventory.capacity());
                    self.add_violation("I4", format!("provider {}", provider.name), message);
                }
            }
            let before = self.state.lock().generations.insert(provider.uuid, provider.generation).unwrap_or_default();
            if provider.generation < before {
                let message = format!("its generation went from {before} to {}, expected it never to fall", provider.generation);
                self.add_violation("I13", format!("provider {}", provider.name), message);
            }
        }
    }

    /// Asks a question that an inline database answers at once.
    fn ask<'a, T, F: Future<Output = Result<T, DbError>>>(&'a self, question: impl FnOnce(&'a Records) -> F) -> Option<T> {
        match question(self.records.as_ref()?).now_or_never() {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => {
                self.add_violation("watch", "the API database".to_owned(), error.to_string());
                None
            }
            None => None,
        }
    }
}

impl Witness for Watch {
    fn elapsed_ms(&self) -> u64 {
        self.trace.elapsed_ms()
    }

    fn note(&self, line: String) {
        self.trace.note(line);
    }

    fn tell(&self, line: String) {
        self.trace.tell(line);
    }

    /// Checks a server after a step of one of its sagas.
    fn step(&self, point: &Point<'_>) {
        if point.moment == Moment::BeforeEffect {
            self.journal_of(point.id);
            self.placement();
        }
        self.guests_of(point.server);
    }

    fn delivered(&self, host: &str, fence: Fence) {
        let mut state = self.state.lock();
        let highest = state.delivered.entry((host.to_owned(), fence.server)).or_default();
        *highest = fence.attempt.max(*highest);
    }
}
