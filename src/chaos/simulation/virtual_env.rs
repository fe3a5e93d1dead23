//! The simulation's [`Env`]: a clock that follows tokio's paused one and can be made to jump, ids from the seed, and blocking
//! work done at once.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use tokio::time::Instant;
use uuid::Uuid;

use super::random::Random;
use crate::env::{Blocking, Clock, Env, IdSource};

/// When every simulation begins: 2026-01-01, 00:00 UTC.
const BEGINNING: TimeDelta = TimeDelta::seconds(1_767_225_600);

/// Virtual time. Made inside the paused runtime.
pub struct VirtualClock {
    start: Instant,
    jumped_ms: AtomicI64,
}

impl VirtualClock {
    /// At the beginning.
    pub fn new() -> VirtualClock {
        VirtualClock { start: Instant::now(), jumped_ms: AtomicI64::new(0) }
    }

    /// Milliseconds since the beginning, whatever the wall clock says.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from((Instant::now() - self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// That many milliseconds after the beginning.
    pub fn instant(&self, ms: u64) -> Instant {
        self.start + std::time::Duration::from_millis(ms)
    }

    /// The wall clock jumps, forward or backward; timers do not.
    pub fn jump(&self, ms: i64) {
        self.jumped_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> DateTime<Utc> {
        let elapsed = TimeDelta::from_std(Instant::now() - self.start).unwrap_or(TimeDelta::MAX);
        let jumped = TimeDelta::milliseconds(self.jumped_ms.load(Ordering::SeqCst));
        (DateTime::UNIX_EPOCH + BEGINNING + elapsed + jumped).trunc_subsecs(6)
    }
}

struct SeededIds(Mutex<Random>);

impl IdSource for SeededIds {
    fn uuid(&self) -> Uuid {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.number().to_be_bytes());
        bytes[8..].copy_from_slice(&random.number().to_be_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// The environment under this seed.
pub fn env(seed: u64, clock: Arc<VirtualClock>) -> Env {
    Env::new(clock, Arc::new(SeededIds(Mutex::new(Random::new(seed, "ids")))), Blocking::Inline)
}
