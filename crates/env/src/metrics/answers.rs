//! The durations of all answers in one fine histogram, from which operators see percentiles without a Prometheus.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets with a bound.
const BOUNDS: usize = 56;
/// The bound of the first bucket in seconds, and the factor from each bound to the next: the last one is 37 seconds.
const FIRST: f64 = 0.000_1;
const FACTOR: f64 = 1.262;

static UPPER: LazyLock<Vec<f64>> =
    LazyLock::new(|| std::iter::successors(Some(FIRST), |bound| Some(bound * FACTOR)).take(BOUNDS).collect());

/// The durations of answers since the start.
pub(super) struct Answers {
    /// The last bucket has no bound.
    counts: [AtomicU64; BOUNDS + 1],
    failures: AtomicU64,
}

/// The answers of one service since its start, and the requests that it has not answered yet.
#[derive(Clone, PartialEq, Debug)]
pub struct AnswerCounts {
    pub in_flight: i64,
    /// Each bucket's upper bound in seconds, and the number of its answers, in the order of the bounds. Longer answers are in `beyond`.
    pub buckets: Vec<(f64, u64)>,
    pub beyond: u64,
    /// The answers with a status from 500 on.
    pub failures: u64,
}

impl AnswerCounts {
    /// Returns the number of all answers.
    pub fn answered(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum::<u64>() + self.beyond
    }
}

impl Answers {
    pub(super) fn new() -> Answers {
        Answers { counts: std::array::from_fn(|_| AtomicU64::new(0)), failures: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        self.counts[UPPER.partition_point(|bound| *bound < seconds)].fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(status >= 500), Ordering::Relaxed);
    }

    pub(super) fn counts(&self, in_flight: i64) -> AnswerCounts {
        let counts = || self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        AnswerCounts {
            in_flight,
            buckets: UPPER.iter().copied().zip(counts()).collect(),
            beyond: counts().next_back().unwrap_or_default(),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_in_the_bucket_of_its_duration() {
        let answers = Answers::new();
        for took in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(3), Duration::from_secs(3600)] {
            answers.observe(200, took);
        }
        answers.observe(503, Duration::ZERO);
        let counts = answers.counts(2);
        assert_eq!((counts.in_flight, counts.beyond, counts.buckets[0]), (2, 1, (FIRST, 3)));
        assert_eq!((counts.answered(), counts.failures), (5, 1));
        let (bound, _) = counts.buckets.iter().rfind(|(_, count)| *count > 0).copied().unwrap();
        assert!((0.003..0.004).contains(&bound), "{bound}");
        assert!(counts.buckets.last().is_some_and(|(bound, _)| *bound > 30.0));
    }
}
