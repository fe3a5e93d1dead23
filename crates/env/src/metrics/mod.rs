//! Metrics: the events of one service, counted for Prometheus (docs/operating/watching.md, "Metrics").
//!
//! Each service has a registry of its own, which its `Env` holds, so that several services in a process do not mix. Layers record at their
//! borders by `env.metrics()`. Recording takes no decision and awaits nothing, so a simulation replays with it. `domain` and `saga` record
//! nothing: the actors that run sagas do. Labels are bounded: patterns of routes, names of steps and cells, never ids or hosts.

mod answers;
mod book;
mod database;
mod process;
mod stopwatch;
#[cfg(test)]
mod tests;
mod waiting;

use std::time::Duration;

use chrono::{DateTime, Utc};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::answers::AnswerCounts;
use self::answers::Answers;
use self::book::{Book, Counters, Durations, Gauges};
pub use self::book::{Level, MetricDescription, Tally, Within};
use self::database::Databases;
pub use self::database::{CallKind, DatabaseMetrics};
pub use self::stopwatch::Stopwatch;
use self::waiting::Waiting;

/// The media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The outcome of an effect that a higher fence refused.
pub const STALE: &str = "stale";

/// The place of a refused fence that is no database.
const HOST: &str = "host";

/// The kinds of actors whose messages are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mailbox {
    Cell,
    Conductor,
    Host,
    Notifier,
    Scheduler,
}

impl Mailbox {
    /// All kinds.
    pub const ALL: [Mailbox; 5] = [Mailbox::Cell, Mailbox::Conductor, Mailbox::Host, Mailbox::Notifier, Mailbox::Scheduler];

    /// Returns the value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Mailbox::Cell => "cell",
            Mailbox::Conductor => "conductor",
            Mailbox::Host => "host",
            Mailbox::Notifier => "notifier",
            Mailbox::Scheduler => "scheduler",
        }
    }
}

/// The metrics of one service.
pub struct Metrics {
    /// None if they are switched off: then nothing is counted.
    all: Option<Box<All>>,
}

struct All {
    registry: Registry,
    descriptions: Vec<MetricDescription>,
    http: Http,
    operations: Operations,
    waiting: Waiting,
    debts: Debts,
    databases: Databases,
    stale: Counters<1>,
    cells: Cells,
    scheduler: Scheduler,
    actors: Actors,
    copied: Counters<1>,
    notifications: Notifications,
}

struct Http {
    requests: Counters<3>,
    seconds: Durations<2>,
    in_flight: Level,
    answers: Answers,
}

struct Operations {
    begun: Counters<2>,
    ended: Counters<2>,
    seconds: Durations<2>,
    steps: Counters<4>,
    step_seconds: Durations<2>,
    in_flight: Gauges<1>,
    waiting: Level,
    stuck: Gauges<1>,
    resumed: Tally,
    queued_deletes: Level,
}

struct Debts {
    unpaid: Gauges<1>,
    oldest: Level,
    recorded: Counters<2>,
    tries: Counters<1>,
}

struct Cells {
    up: Gauges<1>,
    failures: Counters<1>,
    hosts: Gauges<2>,
    heartbeats: Counters<2>,
    heartbeat_at: Gauges<1>,
}

struct Scheduler {
    decisions: Counters<2>,
    seconds: Durations<1>,
}

/// Notifications on their way to RabbitMQ.
struct Notifications {
    events: Counters<1>,
    waiting: Level,
    connected: Level,
}

struct Actors {
    restarts: Counters<1>,
    given_up: Counters<1>,
    messages: Gauges<1>,
}

/// Buckets for what a user waits for.
fn quick() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// Buckets for steps and operations, some of which copy disks.
fn slow() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0])
}

impl Metrics {
    /// Makes metrics that count.
    pub fn on() -> Metrics {
        Metrics { all: Some(Box::new(All::register())) }
    }

    /// Makes metrics that count nothing.
    pub fn off() -> Metrics {
        Metrics { all: None }
    }

    /// Returns all metrics as text of [`CONTENT_TYPE`]; empty if they are switched off. Blocks for some milliseconds.
    pub fn text(&self) -> String {
        // Writing to a string does not fail.
        self.all.as_ref().map(|all| book::text(&all.registry).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns all metrics as documents describe them, also those that have no sample yet.
    pub fn descriptions(&self) -> &[MetricDescription] {
        self.all.as_ref().map_or(&[], |all| &all.descriptions)
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn request_begins(&self) -> Option<Within> {
        self.all.as_ref().map(|all| all.http.in_flight.enter())
    }

    /// Counts an answered request. `route` is its pattern; none if it was answered before a route was found.
    pub fn request_ended(&self, route: Option<&str>, method: &str, status: u16, took: Duration) {
        let Some(all) = &self.all else { return };
        let (route, method) = (route.unwrap_or("none"), method_label(method));
        all.http.requests.of([route, method, &status.to_string()]).inc();
        all.http.seconds.observe([route, method], took);
        all.http.answers.observe(status, took);
    }

    /// Counts a request that was refused before it was whole: its route and method are not known, and its time was its sender's.
    pub fn request_refused(&self, status: u16) {
        let Some(all) = &self.all else { return };
        all.http.requests.of(["none", "other", &status.to_string()]).inc();
    }

    /// Returns the durations of all answers since the start; none if metrics are switched off.
    pub fn answers(&self) -> Option<AnswerCounts> {
        self.all.as_ref().map(|all| all.http.answers.counts(all.http.in_flight.get()))
    }

    /// Counts a request for an operation: `accepted`, `refused`, or `unknown` if it may have begun.
    pub fn operation_begun(&self, kind: &str, outcome: &'static str) {
        let Some(all) = &self.all else { return };
        all.operations.begun.of([kind, outcome]).inc();
    }

    /// Counts the end of an operation and its time since the beginning.
    pub fn operation_ended(&self, kind: &str, end: &str, took: Duration) {
        let Some(all) = &self.all else { return };
        all.operations.ended.of([kind, end]).inc();
        all.operations.seconds.observe([kind, end], took);
    }

    /// Returns the number of operations of this kind that had this end in this process; zero if metrics are switched off.
    pub fn operations_ended(&self, kind: &str, end: &str) -> u64 {
        self.all.as_ref().and_then(|all| all.operations.ended.present([kind, end])).map_or(0, |ended| ended.get())
    }

    /// Counts an operation that this process took over from its journal.
    pub fn operation_resumed(&self) {
        let Some(all) = &self.all else { return };
        all.operations.resumed.note();
    }

    /// Counts the end of a side of an operation's step.
    pub fn step(&self, [kind, step, side, outcome]: [&str; 4], took: Duration) {
        let Some(all) = &self.all else { return };
        all.operations.steps.of([kind, step, side, outcome]).inc();
        all.operations.step_seconds.observe([step, side], took);
    }

    /// Sets the number of a conductor's operations in flight.
    pub fn operations_in_flight(&self, conductor: &str, now: usize) {
        let Some(all) = &self.all else { return };
        Level(all.operations.in_flight.of([conductor])).set(now);
    }

    /// Returns the gauge of operations that wait for their turn.
    pub fn operations_waiting(&self) -> Level {
        self.all.as_ref().map(|all| all.operations.waiting.clone()).unwrap_or_default()
    }

    /// Returns the gauge of operations that cannot go on, for a reason: `journal` or `operator`.
    pub fn operations_stuck(&self, reason: &'static str) -> Level {
        self.all.as_ref().map(|all| Level(all.operations.stuck.of([reason]))).unwrap_or_default()
    }

    /// Sets the number of deletes that wait for their cells.
    pub fn queued_deletes(&self, now: usize) {
        let Some(all) = &self.all else { return };
        all.operations.queued_deletes.set(now);
    }

    /// Sets the numbers of unpaid debts and the age of the oldest.
    pub fn debts(&self, waiting: usize, needing_operator: usize, oldest: Duration) {
        let Some(all) = &self.all else { return };
        for (state, number) in [("waiting", waiting), ("needs_operator", needing_operator)] {
            Level(all.debts.unpaid.of([state])).set(number);
        }
        all.debts.oldest.set(usize::try_from(oldest.as_secs()).unwrap_or(usize::MAX));
    }

    /// Counts a debt that an operation has left.
    pub fn debt_recorded(&self, step: &str, side: &str) {
        let Some(all) = &self.all else { return };
        all.debts.recorded.of([step, side]).inc();
    }

    /// Counts a try to pay a debt.
    pub fn debt_tried(&self, is_paid: bool) {
        let Some(all) = &self.all else { return };
        all.debts.tries.of([if is_paid { "paid" } else { "failed" }]).inc();
    }

    /// Returns the metrics of a database; none if metrics are switched off.
    pub fn database(&self, name: &str) -> Option<DatabaseMetrics> {
        self.all.as_ref().map(|all| all.databases.of(name))
    }

    /// Returns the counter of a database's commits.
    pub fn commits(&self, database: &str) -> Tally {
        self.all.as_ref().map(|all| all.databases.commits(database)).unwrap_or_default()
    }

    /// Returns the gauge of writes that wait for the single writer of a database.
    pub fn writes_waiting(&self, database: &str) -> Level {
        self.all.as_ref().map(|all| all.databases.writes_waiting(database)).unwrap_or_default()
    }

    /// Counts a fence that a host refused.
    pub fn host_refused_fence(&self) {
        let Some(all) = &self.all else { return };
        all.stale.of([HOST]).inc();
    }

    /// Sets whether a cell counts as up.
    pub fn cell_is(&self, cell: &str, up: bool) {
        let Some(all) = &self.all else { return };
        Level(all.cells.up.of([cell])).set(usize::from(up));
    }

    /// Counts a call that a cell's database did not answer.
    pub fn cell_failed(&self, cell: &str) {
        let Some(all) = &self.all else { return };
        all.cells.failures.of([cell]).inc();
    }

    /// Notes that a cell's hosts were to be recorded as seen: how many take requests, of how many, and when that was stored, if it was.
    pub fn heartbeat(&self, cell: &str, (up, hosts): (usize, usize), stored: Option<DateTime<Utc>>) {
        let Some(all) = &self.all else { return };
        let cells = &all.cells;
        Level(cells.hosts.of([cell, "up"])).set(up);
        Level(cells.hosts.of([cell, "down"])).set(hosts.saturating_sub(up));
        cells.heartbeats.of([cell, if stored.is_some() { "ok" } else { "failed" }]).inc();
        if let Some(at) = stored {
            cells.heartbeat_at.of([cell]).set(at.timestamp());
        }
    }

    /// Counts a decision of the scheduler.
    pub fn scheduled(&self, operation: &str, outcome: &'static str, took: Duration) {
        let Some(all) = &self.all else { return };
        all.scheduler.decisions.of([operation, outcome]).inc();
        all.scheduler.seconds.observe([outcome], took);
    }

    /// Counts an actor that died and has a successor.
    pub fn actor_restarted(&self, actor: &str) {
        let Some(all) = &self.all else { return };
        all.actors.restarts.of([actor]).inc();
    }

    /// Counts an actor that died too often.
    pub fn actor_given_up(&self, actor: &str) {
        let Some(all) = &self.all else { return };
        all.actors.given_up.of([actor]).inc();
    }

    /// Returns the gauge of messages to all actors of a kind, in their mailboxes or at work.
    pub fn messages(&self, to: Mailbox) -> Level {
        self.all.as_ref().map(|all| Level(all.actors.messages.of([to.as_str()]))).unwrap_or_default()
    }

    /// Counts notifications that RabbitMQ has confirmed.
    pub fn notifications_published(&self, number: usize) {
        let Some(all) = &self.all else { return };
        all.notifications.events.of(["published"]).inc_by(number as u64);
    }

    /// Notes how many notifications wait for RabbitMQ.
    pub fn notifications_waiting(&self, waiting: u64) {
        let Some(all) = &self.all else { return };
        all.notifications.waiting.set(usize::try_from(waiting).unwrap_or(usize::MAX));
    }

    /// Counts notifications that were given up before RabbitMQ had them.
    pub fn notifications_given_up(&self, number: u64) {
        let Some(all) = &self.all else { return };
        all.notifications.events.of(["given_up"]).inc_by(number);
    }

    /// Notes that a connection to RabbitMQ is open.
    pub fn rabbitmq_connected(&self) {
        let Some(all) = &self.all else { return };
        all.notifications.connected.set(1);
        // An increase can be seen only of a sample that was there before.
        all.notifications.events.of(["given_up"]).inc_by(0);
    }

    /// Counts a try to publish that failed. No connection is open any more.
    pub fn rabbitmq_failed(&self) {
        let Some(all) = &self.all else { return };
        all.notifications.connected.set(0);
        all.notifications.events.of(["failed"]).inc();
    }

    /// Counts bytes that a host copied: `disks_out` that it sent, `disks_in` that it stored, or `memory` of a guest that moves live.
    pub fn copied(&self, what: &'static str, bytes: u64) {
        let Some(all) = &self.all else { return };
        all.copied.of([what]).inc_by(bytes);
    }
}

/// Keeps the values of the label bounded, because a client may send any word.
fn method_label(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|name| *name == method).unwrap_or("other")
}

impl All {
    fn register() -> All {
        let mut book = Book::default();
        let stale = book.counters(
            "cellshift_fences_refused_total",
            ["place"],
            "Late effects that a host or a database refused, because a higher fence had come before",
        );
        let (http, operations) = (Http::register(&mut book), Operations::register(&mut book));
        let (waiting, debts) = (Waiting::register(&mut book), Debts::register(&mut book));
        let databases = Databases::register(&mut book, stale.clone());
        let (cells, scheduler, actors) = (Cells::register(&mut book), Scheduler::register(&mut book), Actors::register(&mut book));
        let copied = book.counters(
            "cellshift_copied_bytes_total",
            ["what"],
            "Bytes that hosts copied for moves, images and new guests: disks_out were sent, disks_in were stored, memory moved live",
        );
        book.gauges("cellshift_build_info", ["version"], "The version of the program; always 1").of([env!("CARGO_PKG_VERSION")]).set(1);
        process::register(&mut book);
        let notifications = Notifications::register(&mut book);
        let (registry, descriptions) = book.close();
        All { registry, descriptions, http, operations, waiting, debts, databases, stale, cells, scheduler, actors, copied, notifications }
    }
}

impl Http {
    fn register(book: &mut Book) -> Http {
        Http {
            requests: book.counters(
                "cellshift_http_requests_total",
                ["route", "method", "status"],
                "Requests that were answered; route none was refused or unknown before a route was found",
            ),
            seconds: book.durations(
                "cellshift_http_request_duration_seconds",
                ["route", "method"],
                "Time from a request's head to the head of its answer",
                quick,
            ),
            in_flight: book.gauge("cellshift_http_requests_in_flight", "Requests that are not answered yet"),
            answers: Answers::new(),
        }
    }
}

impl Operations {
    fn register(book: &mut Book) -> Operations {
        Operations {
            begun: book.counters(
                "cellshift_operations_begun_total",
                ["kind", "outcome"],
                "Requests for operations on servers: accepted, refused, or unknown if the operation may have begun",
            ),
            ended: book.counters("cellshift_operations_ended_total", ["kind", "end"], "Operations that ended: done, or unwound"),
            seconds: book.durations(
                "cellshift_operation_duration_seconds",
                ["kind", "end"],
                "Time from an operation's beginning to its end, also over restarts",
                slow,
            ),
            steps: book.counters(
                "cellshift_steps_total",
                ["kind", "step", "side", "outcome"],
                "Sides of operations' steps that ended, each try by itself",
            ),
            step_seconds: book.durations("cellshift_step_duration_seconds", ["step", "side"], "Time that a side of a step took", slow),
            in_flight: book.gauges(
                "cellshift_operations_in_flight",
                ["conductor"],
                "Operations of this process that have begun and not ended, the waiting ones included",
            ),
            waiting: book.gauge("cellshift_operations_waiting", "Operations that wait until fewer are at work"),
            stuck: book.gauges(
                "cellshift_operations_stuck",
                ["reason"],
                "Operations of this process that cannot go on: the journal does not answer, or an operator must look",
            ),
            resumed: book.counter("cellshift_operations_resumed_total", "Operations that went on from their journals"),
            queued_deletes: book.gauge("cellshift_queued_deletes", "Deletes that wait until their cells answer"),
        }
    }
}

impl Debts {
    fn register(book: &mut Book) -> Debts {
        Debts {
            unpaid: book.gauges("cellshift_debts", ["state"], "Unpaid debts of all processes: waiting, or refused until an operator looks"),
            oldest: book.gauge("cellshift_debt_oldest_age_seconds", "Age of the oldest unpaid debt; 0 without debts"),
            recorded: book.counters("cellshift_debts_recorded_total", ["step", "side"], "Debts that operations left"),
            tries: book.counters("cellshift_debt_tries_total", ["outcome"], "Tries to pay a debt: paid or failed"),
        }
    }
}

impl Cells {
    fn register(book: &mut Book) -> Cells {
        Cells {
            up: book.gauges("cellshift_cell_up", ["cell"], "1 while the cell's database answers, 0 while the cell counts as down"),
            failures: book.counters("cellshift_cell_failures_total", ["cell"], "Calls that a cell's database did not answer"),
            hosts: book.gauges("cellshift_hosts", ["cell", "state"], "Hosts of a cell that take requests (up) and that take none (down)"),
            heartbeats: book.counters(
                "cellshift_heartbeats_total",
                ["cell", "outcome"],
                "Rounds in which a cell's living hosts were recorded as seen, or were not because its database failed",
            ),
            heartbeat_at: book.gauges(
                "cellshift_heartbeat_timestamp_seconds",
                ["cell"],
                "Time of the last round in which a cell's living hosts were recorded as seen",
            ),
        }
    }
}

impl Scheduler {
    fn register(book: &mut Book) -> Scheduler {
        Scheduler {
            decisions: book.counters(
                "cellshift_scheduler_decisions_total",
                ["operation", "outcome"],
                "Decisions of the scheduler: chosen, no_valid_host, or why there was none",
            ),
            seconds: book.durations(
                "cellshift_scheduler_decision_duration_seconds",
                ["outcome"],
                "Time of a decision with its claim, the wait for the scheduler included",
                quick,
            ),
        }
    }
}

impl Notifications {
    fn register(book: &mut Book) -> Notifications {
        Notifications {
            events: book.counters(
                "cellshift_notifications_total",
                ["outcome"],
                "Notifications that RabbitMQ confirmed (published) and that were given up unpublished, and tries to publish that failed",
            ),
            waiting: book.gauge("cellshift_notifications_waiting", "Notifications that RabbitMQ has not confirmed yet"),
            connected: book.gauge("cellshift_rabbitmq_connected", "1 while a connection to RabbitMQ is open; 0 also if none is configured"),
        }
    }
}

impl Actors {
    fn register(book: &mut Book) -> Actors {
        let actors = Actors {
            restarts: book.counters("cellshift_actor_restarts_total", ["actor"], "Actors that died and were started again"),
            given_up: book.counters(
                "cellshift_actors_given_up_total",
                ["actor"],
                "Actors that died too often and were left down; the process ends unless it was a host",
            ),
            messages: book.gauges(
                "cellshift_messages_in_flight",
                ["actor"],
                "Messages to actors of a kind in their mailboxes or at work: cell, conductor, host, notifier or scheduler",
            ),
        };
        // A mailbox that was never used is empty, and shows it.
        for kind in Mailbox::ALL {
            actors.messages.of([kind.as_str()]).set(0);
        }
        actors
    }
}
