//! The parts that a test or a simulation replaces: the clock, the source of ids and random numbers, the keys of secrets, and the threads of
//! blocking work; and the metrics and traces of the service, the changes of its operations and its seat, because all that needs them has an
//! [`Env`]. Beside it are the buffers and streams of the bytes that blocking work reads and writes, and the keys of a single recipient.
//!
//! All code that needs the time, a new id or a blocking call takes an [`Env`]. Nothing else in the crate asks the operating system for them
//! (`clippy.toml` refuses it), so a run with a seed and tokio's paused clock replays exactly.

pub mod borders;
pub mod buffers;
pub mod changes;
pub mod guard;
pub mod key_pair;
pub mod metrics;
pub mod random;
pub mod sealer;
pub mod seat;
pub mod streams;
pub mod traces;
pub mod turns;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};
use parking_lot::RwLock;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;
use zeroize::Zeroizing;

use self::borders::{Borders, Open};
use self::changes::Changes;
use self::random::Random;
use self::sealer::{PassingKey, Sealer};
use self::seat::Seat;
use crate::metrics::{Metrics, Stopwatch};
use crate::traces::Traces;

/// The time of records, truncated to microseconds so that both databases return the written value.
pub trait Clock: Send + Sync {
    /// Returns the present time in UTC.
    fn now(&self) -> DateTime<Utc>;

    /// Returns the time since a moment that stays the same while the process lives. It never jumps or goes back. By default it follows tokio's
    /// clock, which tests pause.
    fn elapsed(&self) -> Duration {
        tokio::time::Instant::now().into_std().saturating_duration_since(*BEGINNING)
    }
}

/// The moment from which [`Clock::elapsed`] counts.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The operating system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the operating system's clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    /// The time since the machine was booted: it goes on while the machine is suspended.
    fn elapsed(&self) -> Duration {
        Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
    }
}

/// The source of new ids.
pub trait IdSource: Send + Sync {
    /// Returns an unused id.
    fn uuid(&self) -> Uuid;
}

/// Random ids (version 4).
pub struct RandomIds;

impl IdSource for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "the one place that makes random ids")]
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// The place where blocking work (databases, files, hypervisor calls) runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocking {
    /// On tokio's blocking pool, for a service.
    Pool,
    /// On the caller's thread, for a simulation: a second thread would make it non-deterministic.
    Inline,
}

/// The clock, ids, keys, blocking mode, borders and metrics of all parts.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    blocking: Blocking,
    borders: Arc<dyn Borders>,
    sealer: Arc<RwLock<Arc<dyn Sealer>>>,
    metrics: Arc<Metrics>,
    traces: Traces,
    changes: Changes,
    seat: Seat,
}

impl Env {
    /// Returns the environment of a real service.
    pub fn system() -> Env {
        Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Pool)
    }

    /// Makes an environment from these parts, with metrics of its own.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>, blocking: Blocking) -> Env {
        let (sealer, metrics) = (Arc::new(RwLock::new(Arc::new(PassingKey::new()) as Arc<dyn Sealer>)), Arc::new(Metrics::on()));
        let (traces, changes, seat) = (Traces::default(), Changes::default(), Seat::default());
        Env { clock, ids, blocking, borders: Arc::new(Open), sealer, metrics, traces, changes, seat }
    }

    /// Returns the environment with these metrics. Parts that were made before keep counting for the earlier ones.
    pub fn with_metrics(self, metrics: Metrics) -> Env {
        Env { metrics: Arc::new(metrics), ..self }
    }

    /// Returns the metrics of the service.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the environment with these traces.
    pub fn with_traces(self, traces: Traces) -> Env {
        Env { traces, ..self }
    }

    /// Returns the traces of the service.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Returns the changes of this process's operations.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns the right of this process to write.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Returns the environment without a seat: what it makes may always write.
    pub fn without_seat(&self) -> Env {
        Env { seat: Seat::default(), ..self.clone() }
    }

    /// Starts to measure a duration for metrics.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start()
    }

    /// Sets the keys for all parts with this environment. The keys of [`Env::new`] end with the process.
    pub fn set_sealer(&self, sealer: Arc<dyn Sealer>) {
        *self.sealer.write() = sealer;
    }

    /// Seals a secret, so that it may be stored or sent.
    pub fn seal(&self, secret: &[u8]) -> String {
        self.sealer.read().seal(secret)
    }

    /// Opens a sealed secret; none if another key sealed it.
    pub fn unseal(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.sealer.read().unseal(sealed)
    }

    /// Returns the environment with these borders.
    pub fn with_borders(self, borders: Arc<dyn Borders>) -> Env {
        Env { borders, ..self }
    }

    /// Returns the borders to databases and files.
    pub fn borders(&self) -> &dyn Borders {
        self.borders.as_ref()
    }

    /// Returns the present time in UTC, in whole microseconds.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Returns the time since a moment that stays the same while the process lives. It never jumps or goes back, and a service's goes on while
    /// its machine is suspended.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns a new id.
    pub fn uuid(&self) -> Uuid {
        self.ids.uuid()
    }

    /// Returns a stream of random numbers, for choices among equals. The seed of a simulation decides them too.
    pub fn random(&self) -> Random {
        // An id of version 4 has six fixed bits, which stand at different places of its halves.
        let (high, low) = self.uuid().as_u64_pair();
        Random::new(high.rotate_left(32) ^ low, "choices")
    }

    /// Returns where blocking work runs.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Runs `work` where blocking work belongs, and returns its result. A panic in `work` continues in the caller.
    pub async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.blocking {
            Blocking::Inline => work(),
            Blocking::Pool => erased::unwrap(on_pool(Box::new(|| erased::wrap(work()))).await),
        }
    }
}

/// Has one type for all callers, so that tokio's task is compiled once, not for each piece of work.
async fn on_pool(work: Box<dyn FnOnce() -> erased::Value + Send>) -> erased::Value {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and nobody is left to read an answer.
            Err(_) => futures::future::pending().await,
        },
    }
}

/// Values whose type only sender and receiver know.
pub mod erased {
    use std::any::Any;

    /// A value of hidden type.
    pub type Value = Box<dyn Any + Send>;

    /// Hides the type.
    pub fn wrap<T: Send + 'static>(value: T) -> Value {
        Box::new(value)
    }

    /// Returns the value given to [`wrap`]. Panics if its type differs.
    pub fn unwrap<T: 'static>(value: Value) -> T {
        match value.downcast() {
            Ok(value) => *value,
            Err(_) => panic!("a value was taken for a {}", std::any::type_name::<T>()),
        }
    }
}
