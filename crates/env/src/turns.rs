//! Turns at blocking work that keeps a core busy: a bounded number at a time, and a bounded number of callers that wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Callers that may wait for a turn; more are refused at once.
const WAITING_MAX: usize = 64;

/// How long a caller waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bounds one kind of work.
pub struct Turns {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The right to do one piece of the work at a time. Its holder gives it to the thread that works, too, which works on when
/// nobody waits for the result any more.
pub type Turn = Arc<OwnedSemaphorePermit>;

impl Turns {
    /// At most `at_once` turns are taken at a time, and one at least.
    pub fn new(at_once: usize) -> Turns {
        Turns { free: Arc::new(Semaphore::new(at_once.max(1))), waiting: AtomicUsize::new(0) }
    }

    /// Half of the cores: the others answer requests meanwhile.
    pub fn half_of_the_cores() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from) / 2
    }

    /// Waits for a turn; none when too many wait already, or after a while.
    pub async fn take(&self) -> Option<Turn> {
        let _waiting = Waiting::enter(&self.waiting)?;
        match tokio::time::timeout(PATIENCE, self.free.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Some(Arc::new(permit)),
            _ => None,
        }
    }
}

/// Counts one who waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn enter(counter: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(counter);
        // Counted before it is judged, so that two that come at once cannot both be the last.
        if counter.fetch_add(1, Ordering::SeqCst) < WAITING_MAX { Some(waiting) } else { None }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_too_long_or_come_late_are_refused() {
        let turns = Arc::new(Turns::new(1));
        let held = turns.take().await.unwrap();
        let waits = (0..WAITING_MAX).map(|_| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take().await.is_none() })
        });
        let waits: Vec<_> = waits.collect();
        while turns.waiting.load(Ordering::SeqCst) < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        let at_once = tokio::time::Instant::now();
        assert!(turns.take().await.is_none());
        assert_eq!(at_once.elapsed(), Duration::ZERO, "nobody waits behind a full queue");
        for wait in waits {
            assert!(wait.await.unwrap());
        }
        assert_eq!(turns.waiting.load(Ordering::SeqCst), 0);
        drop(held);
        turns.take().await.unwrap();
    }
}
