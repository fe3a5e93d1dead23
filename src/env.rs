//! The parts that a test or a simulation replaces: the clock, the source of ids, the keys of secrets, and where blocking work runs.
//!
//! Everything that needs the time, a new id or a blocking call takes an [`Env`]; nothing else in the crate asks the
//! operating system for them (`clippy.toml` refuses it), so a run under a seed and tokio's paused clock replays exactly.

pub mod guard;
pub mod sealer;
pub mod turns;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, SubsecRound, Utc};
use uuid::Uuid;
use zeroize::Zeroizing;

use self::sealer::{PassingKey, Sealer};

/// The time as records see it, truncated to microseconds so that both databases give back what was written.
pub trait Clock: Send + Sync {
    /// Now, in UTC.
    fn now(&self) -> DateTime<Utc>;
}

/// The operating system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the operating system's clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}

/// Where new ids come from.
pub trait IdSource: Send + Sync {
    /// An id nobody has used.
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

/// Where blocking work (databases, files, hypervisor calls) runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocking {
    /// On tokio's blocking pool: a service.
    Pool,
    /// At once, on the caller's thread: a simulation, where a second thread would end determinism.
    Inline,
}

/// No limit to what files may take.
const UNLIMITED: u64 = u64::MAX;

/// Clock, ids, keys and blocking mode, handed to every part.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    blocking: Blocking,
    disk: Arc<AtomicU64>,
    sealer: Arc<RwLock<Arc<dyn Sealer>>>,
}

impl Env {
    /// The environment of a real service.
    pub fn system() -> Env {
        Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Pool)
    }

    /// An environment of the caller's making.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>, blocking: Blocking) -> Env {
        Env { clock, ids, blocking, disk: Arc::new(AtomicU64::new(UNLIMITED)), sealer: Arc::new(RwLock::new(Arc::new(PassingKey::new()))) }
    }

    /// Seals with these keys from now on, in every part that has this environment. Those of [`Env::new`] end with the process.
    pub fn set_sealer(&self, sealer: Arc<dyn Sealer>) {
        *self.sealer.write().unwrap_or_else(PoisonError::into_inner) = sealer;
    }

    /// Seals what may be stored or sent, but not read.
    pub fn seal(&self, secret: &[u8]) -> String {
        self.sealer.read().unwrap_or_else(PoisonError::into_inner).seal(secret)
    }

    /// The value that was sealed; none when it was sealed with another key.
    pub fn unseal(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.sealer.read().unwrap_or_else(PoisonError::into_inner).unseal(sealed)
    }

    /// A fault point: how many more bytes the files of images, volumes and hosts may take; none for as many as the disk has.
    pub fn limit_disk(&self, bytes: Option<u64>) {
        self.disk.store(bytes.unwrap_or(UNLIMITED), Ordering::SeqCst);
    }

    /// Asked before so many bytes are written to a file: the error of a full disk when they are not to be had.
    pub fn take_disk(&self, bytes: usize) -> std::io::Result<()> {
        let take = |left: u64| if left == UNLIMITED { Some(left) } else { left.checked_sub(bytes as u64) };
        match self.disk.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::StorageFull)),
        }
    }

    /// Now, in UTC, whole microseconds.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// A new id.
    pub fn uuid(&self) -> Uuid {
        self.ids.uuid()
    }

    /// Where blocking work runs here.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Runs `work` where blocking work belongs and gives its result. A panic in `work` goes on in the caller.
    pub async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.blocking {
            Blocking::Inline => work(),
            Blocking::Pool => erased::unwrap(on_pool(Box::new(|| erased::wrap(work()))).await),
        }
    }
}

/// Of one type for all callers: tokio's task is compiled once, not for each piece of work.
async fn on_pool(work: Box<dyn FnOnce() -> erased::Value + Send>) -> erased::Value {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down: nobody is left to read an answer.
            Err(_) => futures::future::pending().await,
        },
    }
}

/// Values whose type only their two ends know.
pub mod erased {
    use std::any::Any;

    /// Such a value.
    pub type Value = Box<dyn Any + Send>;

    /// Hides the type.
    pub fn wrap<T: Send + 'static>(value: T) -> Value {
        Box::new(value)
    }

    /// Gives back what [`wrap`] was given; it panics when that was of another type.
    pub fn unwrap<T: 'static>(value: Value) -> T {
        match value.downcast() {
            Ok(value) => *value,
            Err(_) => panic!("a value was taken for a {}", std::any::type_name::<T>()),
        }
    }
}
