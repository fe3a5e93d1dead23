//! The requests that a link has delivered and that have no reply yet.

use std::collections::HashMap;
use std::sync::Arc;

use cellshift_domain::fence::Fence;
use parking_lot::Mutex;

/// The fences of the requests that a host has in hand, each with the number of its deliveries. Clones share them.
#[derive(Clone, Default)]
pub struct AtWork(Arc<Mutex<HashMap<Fence, usize>>>);

impl AtWork {
    /// Counts a delivery until the returned value is dropped.
    pub fn count(&self, fence: Fence) -> Counted {
        *self.0.lock().entry(fence).or_default() += 1;
        Counted { fence, at_work: self.clone() }
    }

    /// Returns the number of requests. A request that is delivered several times counts once.
    pub fn requests(&self) -> usize {
        self.0.lock().len()
    }
}

/// A delivery that is counted.
pub struct Counted {
    fence: Fence,
    at_work: AtWork,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut fences = self.at_work.0.lock();
        if let Some(deliveries) = fences.get_mut(&self.fence) {
            *deliveries -= 1;
            if *deliveries == 0 {
                fences.remove(&self.fence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_request_delivered_twice_counts_once() {
        let (at_work, fence) = (AtWork::default(), Fence { server: Uuid::nil(), epoch: 1, attempt: 1 });
        let (first, second) = (at_work.count(fence), at_work.count(fence));
        let other = at_work.count(Fence { attempt: 2, ..fence });
        assert_eq!(at_work.requests(), 2);
        drop(first);
        assert_eq!(at_work.requests(), 2);
        drop((second, other));
        assert_eq!(at_work.requests(), 0);
    }
}
