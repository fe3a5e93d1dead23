//! The metrics of one database, looked up once, because each call of the database counts.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::book::{Book, Counters, Durations, Gauges, Level};
use super::{Tally, quick};

/// The two kinds of calls.
const KINDS: [&str; 2] = ["read", "write"];
/// The outcome of a call that succeeded.
const OK: &str = "ok";

/// The metrics of all databases.
pub(super) struct Databases {
    calls: Counters<3>,
    seconds: Durations<2>,
    in_flight: Gauges<1>,
    waits: Durations<1>,
    in_use: Gauges<1>,
    writes_waiting: Gauges<1>,
    commits: Counters<1>,
    stale: Counters<1>,
}

impl Databases {
    pub(super) fn register(book: &mut Book, stale: Counters<1>) -> Databases {
        Databases {
            calls: book.counters(
                "cellshift_db_calls_total",
                ["database", "kind", "outcome"],
                "Calls of databases that ended: a read or a write, and ok or the kind of error",
            ),
            seconds: book.durations(
                "cellshift_db_call_duration_seconds",
                ["database", "kind"],
                "Time from the call of a database to its answer, waits included",
                quick,
            ),
            in_flight: book.gauges("cellshift_db_calls_in_flight", ["database"], "Calls of databases whose callers still wait"),
            waits: book.durations(
                "cellshift_db_pool_wait_duration_seconds",
                ["database"],
                "Time that calls waited for a connection of the pool",
                quick,
            ),
            in_use: book.gauges("cellshift_db_connections_in_use", ["database"], "Connections of the pool at work, at most 8 per database"),
            writes_waiting: book.gauges(
                "cellshift_db_writes_waiting",
                ["database"],
                "Writes that wait for the single writer of a SQLite file, or are in its present commit",
            ),
            commits: book.counters(
                "cellshift_db_commits_total",
                ["database"],
                "Commits of databases; fewer than the successful writes where the writer of a SQLite file grouped some",
            ),
            stale,
        }
    }

    pub(super) fn of(&self, database: &str) -> DatabaseMetrics {
        DatabaseMetrics {
            ok: KINDS.map(|kind| self.calls.of([database, kind, OK])),
            seconds: KINDS.map(|kind| self.seconds.of([database, kind])),
            in_flight: Level(self.in_flight.of([database])),
            waits: self.waits.of([database]),
            in_use: Level(self.in_use.of([database])),
            errors: ErrorCounters { database: database.to_owned(), calls: self.calls.clone(), stale: self.stale.clone() },
        }
    }

    pub(super) fn commits(&self, database: &str) -> Tally {
        Tally(self.commits.of([database]))
    }

    pub(super) fn writes_waiting(&self, database: &str) -> Level {
        Level(self.writes_waiting.of([database]))
    }
}

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// Reads.
    Read,
    /// Writes in one transaction.
    Write,
}

/// Counters of rarer outcomes, which are looked up when they happen.
struct ErrorCounters {
    database: String,
    calls: Counters<3>,
    stale: Counters<1>,
}

/// The metrics of one database under one name.
pub struct DatabaseMetrics {
    ok: [Counter; 2],
    seconds: [Histogram; 2],
    in_flight: Level,
    waits: Histogram,
    in_use: Level,
    errors: ErrorCounters,
}

impl DatabaseMetrics {
    /// Returns the gauge of calls whose callers wait.
    pub fn in_flight(&self) -> &Level {
        &self.in_flight
    }

    /// Returns the gauge of connections at work.
    pub fn in_use(&self) -> &Level {
        &self.in_use
    }

    /// Counts the wait of a call for a connection.
    pub fn waited(&self, time: Duration) {
        self.waits.observe(time.as_secs_f64());
    }

    /// Counts a call that ended after this time, well or with an error of this kind. An error [`STALE`](super::STALE) also counts as a refused
    /// fence.
    pub fn ended(&self, kind: CallKind, error: Option<&'static str>, took: Duration) {
        self.seconds[kind as usize].observe(took.as_secs_f64());
        let Some(error) = error else {
            self.ok[kind as usize].inc();
            return;
        };
        let ErrorCounters { database, calls, stale } = &self.errors;
        calls.of([database, KINDS[kind as usize], error]).inc();
        if error == super::STALE {
            stale.of([database]).inc();
        }
    }
}
