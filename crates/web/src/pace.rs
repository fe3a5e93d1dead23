//! The minimum rate of a client. Only the time in which the service waits for the client counts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A minimum rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The minimum number of bytes per second of waiting.
    pub bytes_per_second: usize,
    /// The span over which the rate is measured: a client may stall for this long.
    pub patience: Duration,
}

impl Pace {
    /// Returns the minimum number of bytes in one span.
    fn enough(&self) -> usize {
        (self.patience.as_secs_f64() * self.bytes_per_second as f64) as usize
    }
}

/// Measures the rate of one stream of bytes.
pub struct Meter {
    pace: Pace,
    /// The bytes and the waiting in the current span.
    moved: usize,
    waited: Duration,
    since: Option<Instant>,
    /// Made at the first wait for the client, because most streams never wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Meter {
    /// Makes a meter for a new stream.
    pub fn new(pace: Pace) -> Meter {
        Meter { pace, moved: 0, waited: Duration::ZERO, since: None, timer: None }
    }

    /// Counts moved bytes, which end a wait.
    pub fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.moved = self.moved.saturating_add(bytes);
        if self.moved >= self.pace.enough() {
            (self.moved, self.waited) = (0, Duration::ZERO);
        }
    }

    /// True while the service waits for the client.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// Polled while nothing moves: ready once the client has stalled for too long.
    pub fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let until = since + self.pace.patience.saturating_sub(self.waited);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const PACE: Pace = Pace { bytes_per_second: 100, patience: Duration::from_secs(10) };

    async fn too_slow(meter: &mut Meter) {
        poll_fn(|cx| meter.poll_too_slow(cx)).await;
    }

    #[actix_web::test]
    async fn a_drip_is_judged_by_its_rate_not_its_pauses() {
        tokio::time::pause();
        let (mut meter, start) = (Meter::new(PACE), Instant::now());
        while tokio::time::timeout(Duration::from_secs(1), too_slow(&mut meter)).await.is_err() {
            meter.moved(1);
        }
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[actix_web::test]
    async fn a_rate_just_above_the_least_goes_on_for_ever() {
        tokio::time::pause();
        let mut meter = Meter::new(PACE);
        for _ in 0..1000 {
            assert!(tokio::time::timeout(Duration::from_secs(1), too_slow(&mut meter)).await.is_err());
            meter.moved(112);
        }
    }

    #[actix_web::test]
    async fn time_in_which_nobody_waits_for_the_client_is_free() {
        tokio::time::pause();
        let mut meter = Meter::new(PACE);
        assert!(tokio::time::timeout(Duration::from_secs(9), too_slow(&mut meter)).await.is_err());
        meter.moved(1);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(tokio::time::timeout(Duration::from_millis(900), too_slow(&mut meter)).await.is_err());
        assert!(tokio::time::timeout(Duration::from_millis(200), too_slow(&mut meter)).await.is_ok());
    }
}
