//! A run's [`Env`]: a clock that follows tokio's clock (paused in the simulation) and can jump, ids from the seed, and in the simulation
//! blocking work on the caller's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::chaos::borders::FaultyBorders;
use crate::chaos::experiment::injector::Jump;
use crate::env::random::Random;
use crate::env::{Blocking, Clock, Env, IdSource};

/// The beginning of all simulations: 2026-01-01, 00:00 UTC.
const BEGINNING: TimeDelta = TimeDelta::seconds(1_767_225_600);

/// A run's clock. Made inside its runtime.
pub struct RunClock {
    start: Instant,
    /// The wall clock's time at the beginning.
    began: DateTime<Utc>,
    jumped_ms: AtomicI64,
    /// The times of jumps, each with the sum of all jumps so far.
    jumps: Mutex<Vec<(u64, i64)>>,
}

impl RunClock {
    /// Makes a clock at the beginning of all simulations.
    pub fn virtual_time() -> RunClock {
        RunClock::beginning(DateTime::UNIX_EPOCH + BEGINNING)
    }

    /// Makes a clock whose wall clock begins at this time.
    pub fn beginning(began: DateTime<Utc>) -> RunClock {
        RunClock { start: Instant::now(), began, jumped_ms: AtomicI64::new(0), jumps: Mutex::default() }
    }

    /// Returns how many milliseconds after the beginning the wall clock showed this time. Undoes its jumps, as far as that is unambiguous.
    pub fn elapsed_at(&self, shown: DateTime<Utc>) -> u64 {
        let jumps = self.jumps.lock();
        let since = |jumped: i64| (shown - self.began).num_milliseconds() - jumped;
        let mut best = since(0);
        for (number, (at, jumped)) in jumps.iter().enumerate() {
            let until = jumps.get(number + 1).map_or(i64::MAX, |(next, _)| i64::try_from(*next).unwrap_or(i64::MAX));
            let candidate = since(*jumped);
            if candidate >= i64::try_from(*at).unwrap_or(i64::MAX) && candidate <= until {
                best = candidate;
            }
        }
        u64::try_from(best).unwrap_or_default()
    }

    /// Returns the milliseconds since the beginning, without jumps.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from((Instant::now() - self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the instant this many milliseconds after the beginning.
    pub fn instant(&self, ms: u64) -> Instant {
        self.start + std::time::Duration::from_millis(ms)
    }
}

impl Jump for RunClock {
    fn jump(&self, ms: i64) {
        let all = self.jumped_ms.fetch_add(ms, Ordering::SeqCst) + ms;
        self.jumps.lock().push((self.elapsed_ms(), all));
    }
}

impl Clock for RunClock {
    fn now(&self) -> DateTime<Utc> {
        let elapsed = TimeDelta::from_std(Instant::now() - self.start).unwrap_or(TimeDelta::MAX);
        let jumped = TimeDelta::milliseconds(self.jumped_ms.load(Ordering::SeqCst));
        (self.began + elapsed + jumped).trunc_subsecs(6)
    }
}

/// Ids from the seed.
pub struct SeededIds(Mutex<Random>);

impl SeededIds {
    pub fn new(seed: u64) -> SeededIds {
        SeededIds(Mutex::new(Random::new(seed, "ids")))
    }
}

impl IdSource for SeededIds {
    fn uuid(&self) -> Uuid {
        let mut random = self.0.lock();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.number().to_be_bytes());
        bytes[8..].copy_from_slice(&random.number().to_be_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// Returns the simulation's environment for this seed.
pub fn env(seed: u64, clock: Arc<RunClock>) -> Env {
    FaultyBorders::of(Env::new(clock, Arc::new(SeededIds::new(seed)), Blocking::Inline))
}
