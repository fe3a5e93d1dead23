//! The one clock of a request: however many cells it asks, and however often, all its waiting for cells ends by one deadline.
//!
//! A call may take half of what is left, so that a cell that hangs always leaves time to ask the others, and a cell that failed
//! once is not asked again by the same request: what is said of each cell depends on that cell alone.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

/// What a call gets even when the time is over: enough for a cell that is well. A request reads on after waiting for something else.
const LEAST_SHARE: u32 = 20;
/// A silence of at least this part of the whole speaks against a cell; a shorter one may be due to what others left.
const FAIR_SHARE: u32 = 4;

tokio::task_local! {
    static CLOCK: RequestClock;
}

struct RequestClock {
    whole: Duration,
    /// Set by the first call.
    ends: RefCell<Option<Instant>>,
    /// Cells that failed this request.
    failed: RefCell<BTreeSet<String>>,
}

/// How long a call on a cell may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    pub time: Duration,
    /// So long that a silence speaks against the cell.
    pub fair: bool,
}

/// Runs a request under a clock of its own: its calls on cells take `whole` together, from the first one on.
pub async fn within<T>(whole: Duration, request: impl Future<Output = T>) -> T {
    CLOCK.scope(RequestClock { whole, ends: RefCell::new(None), failed: RefCell::default() }, request).await
}

/// What a call may take: `patience` where no request's clock runs; none when the cell has failed this request before.
pub(super) fn allowance(cell: &str, patience: Duration) -> Option<Allowance> {
    CLOCK.try_with(|clock| clock.allowance(cell, patience)).unwrap_or(Some(Allowance { time: patience, fair: true }))
}

/// The cell is not asked again by this request.
pub(super) fn failed(cell: &str) {
    // Outside a request there is nothing to remember it for.
    let _ = CLOCK.try_with(|clock| clock.failed.borrow_mut().insert(cell.to_owned()));
}

impl RequestClock {
    fn allowance(&self, cell: &str, patience: Duration) -> Option<Allowance> {
        if self.failed.borrow().contains(cell) {
            return None;
        }
        let now = Instant::now();
        let ends = *self.ends.borrow_mut().get_or_insert(now + self.whole);
        let half = (ends - now) / 2;
        let time = half.max(self.whole / LEAST_SHARE).min(patience);
        Some(Allowance { time, fair: time >= self.whole / FAIR_SHARE || time == patience })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_secs(8);

    fn time(cell: &str) -> Option<(u128, bool)> {
        allowance(cell, WHOLE).map(|allowance| (allowance.time.as_millis(), allowance.fair))
    }

    #[tokio::test(start_paused = true)]
    async fn successive_waits_share_one_deadline() {
        within(WHOLE, async {
            tokio::time::sleep(WHOLE).await;
            let began = Instant::now();
            let mut waits = Vec::new();
            for cell in ["a", "b", "c"] {
                let wait = time(cell).unwrap();
                waits.push(wait);
                tokio::time::sleep(Duration::from_millis(wait.0 as u64)).await;
                failed(cell);
            }
            assert_eq!(waits, [(4000, true), (2000, true), (1000, false)], "the clock starts with the first call");
            assert!(began.elapsed() < WHOLE);
            assert_eq!((time("b"), time("d").unwrap().1), (None, false), "what failed is not asked again");
            tokio::time::sleep(WHOLE).await;
            assert_eq!(time("e"), Some((400, false)), "a cell that is well answers even when the time is over");
        })
        .await;
        assert_eq!(time("a"), Some((8000, true)), "elsewhere patience counts");
    }
}
