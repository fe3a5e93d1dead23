//! The clock of a request. However many cells the request asks, and however often, it waits for all of them together until one deadline.
//!
//! A call may take half of the time that is left, so that a cell that hangs leaves time for the others. A cell that failed once is not
//! asked again by the same request: the answer about each cell depends on that cell alone.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

/// The time of a call after the deadline: enough for a healthy cell. A request may read on after it has waited for something else.
const LEAST_SHARE: u32 = 20;
/// A silence of at least this part of the whole time counts against a cell. A shorter one may be due to the time that other cells took.
const FAIR_SHARE: u32 = 4;

tokio::task_local! {
    static CLOCK: RequestClock;
}

struct RequestClock {
    whole: Duration,
    /// Set by the first call.
    ends: RefCell<Option<Instant>>,
    /// The cells that failed this request.
    failed: RefCell<BTreeSet<String>>,
}

/// The time limit of a call on a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    pub time: Duration,
    /// True if a silence of this time counts against the cell.
    pub fair: bool,
}

/// Runs a request under a clock of its own. All of its calls on cells take at most `whole` together, from the first call on.
pub async fn within<T>(whole: Duration, request: impl Future<Output = T>) -> T {
    CLOCK.scope(RequestClock { whole, ends: RefCell::new(None), failed: RefCell::default() }, request).await
}

/// Returns the time limit of a call: `patience` outside a request. None if the cell has failed this request.
pub(super) fn allowance(cell: &str, patience: Duration) -> Option<Allowance> {
    CLOCK.try_with(|clock| clock.allowance(cell, patience)).unwrap_or(Some(Allowance { time: patience, fair: true }))
}

/// Notes that the cell failed this request.
pub(super) fn failed(cell: &str) {
    // Outside a request there is no clock.
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
