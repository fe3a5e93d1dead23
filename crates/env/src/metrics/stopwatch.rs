//! Durations for metrics.

use std::time::Duration;

use tokio::time::Instant;

/// Measures a duration for metrics; no decision depends on it. Under a simulation's paused clock it measures virtual time, so that a seed
/// replays the same numbers.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
