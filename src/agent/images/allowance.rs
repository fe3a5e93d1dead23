//! The number of bytes per second that a host may read and send.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A rate that all transfers of a host share.
pub(super) struct Allowance {
    /// In bytes; 0 is no limit.
    per_second: u64,
    /// The moment at which the bytes that have passed are paid for.
    free_at: Mutex<Instant>,
}

impl Allowance {
    /// Allows this number of bytes per second; any number with 0.
    pub fn new(per_second: u64) -> Allowance {
        Allowance { per_second, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until these bytes may pass.
    pub async fn pass(&self, bytes: usize) {
        if self.per_second == 0 {
            return;
        }
        let at = {
            let mut free_at = self.free_at.lock();
            let at = (*free_at).max(Instant::now());
            *free_at = at + Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
            at
        };
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join;

    use super::*;

    #[actix_web::test]
    async fn transfers_share_one_rate() {
        tokio::time::pause();
        let (allowance, start) = (Allowance::new(100), Instant::now());
        let transfer = async || {
            for _ in 0..10 {
                allowance.pass(50).await;
            }
        };
        join(transfer(), transfer()).await;
        // The last of twenty pieces passes when the others are paid for.
        assert_eq!(start.elapsed().as_millis() / 10, 950);
    }

    #[actix_web::test]
    async fn a_pause_saves_nothing_up() {
        tokio::time::pause();
        let allowance = Allowance::new(100);
        tokio::time::advance(Duration::from_secs(60)).await;
        let start = Instant::now();
        allowance.pass(100).await;
        allowance.pass(100).await;
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[actix_web::test]
    async fn without_a_limit_nothing_waits() {
        tokio::time::pause();
        let (allowance, start) = (Allowance::new(0), Instant::now());
        allowance.pass(usize::MAX).await;
        allowance.pass(usize::MAX).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
