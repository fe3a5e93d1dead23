//! The promise of a host's agent to stop its guests itself when it cannot renew its word, as a controller counts it. The agent counts from the
//! moment at which it sent the hello that was accepted last; the controller from the later moment at which it saw the record of that, by its
//! own monotonic clock. So the agent's time is over first, whatever the messages between them were.

use std::time::Duration;

use cellshift_domain::agent::Renewal;
use chrono::{DateTime, Utc};
use tokio::time::Instant;

/// The part of the promised time that is added to it, as a divisor: monotonic clocks of two machines differ by less than a hundredth.
const CLOCKS_DIFFER_BY: u32 = 100;

/// The last renewal of an agent's word that a controller has seen in the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    renewal: Renewal,
    /// The moment at which the controller saw it first.
    seen: Instant,
}

impl Promise {
    /// Takes the renewal from the records, which have just been read or written. The same one counts from the moment at which it was seen first.
    pub fn seen(before: Option<Promise>, renewal: Renewal) -> Promise {
        match before {
            Some(before) if before.renewal == renewal => before,
            _ => Promise { renewal, seen: Instant::now() },
        }
    }

    /// Returns the time after which the host is off unless the word is renewed; none of an agent that promises nothing.
    pub fn off_after(&self, margin: Duration) -> Option<Duration> {
        let time = self.renewal.self_fence?;
        Some(time.saturating_add(time / CLOCKS_DIFFER_BY).saturating_add(margin))
    }

    /// Returns the moment of the last renewal, if the time of the promise and the margin have passed since.
    pub fn kept_since(&self, margin: Duration) -> Option<DateTime<Utc>> {
        let is_over = self.seen.elapsed() >= self.off_after(margin)?;
        is_over.then_some(self.renewal.heard_at)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MARGIN: Duration = Duration::from_secs(10);
    const NEARLY: Duration = Duration::from_millis(70_599);
    const MOMENT: Duration = Duration::from_millis(1);

    fn renewal(second: i64, self_fence: Option<u64>) -> Renewal {
        let heard_at = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(second);
        Renewal { heard_at, self_fence: self_fence.map(Duration::from_secs) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_promise_is_kept_after_its_time_and_a_margin() {
        let promise = Promise::seen(None, renewal(7, Some(60)));
        advance(NEARLY).await;
        assert_eq!(promise.kept_since(MARGIN), None);
        let read_again = Promise::seen(Some(promise), renewal(7, Some(60)));
        advance(MOMENT).await;
        assert_eq!(read_again.kept_since(MARGIN), Some(renewal(7, None).heard_at));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_word_begins_the_time_anew() {
        let before = Promise::seen(None, renewal(7, Some(60)));
        advance(NEARLY).await;
        for renewed in [renewal(8, Some(60)), renewal(7, Some(61)), renewal(6, Some(60))] {
            let promise = Promise::seen(Some(before), renewed);
            advance(MOMENT).await;
            assert_eq!(promise.kept_since(MARGIN), None, "{renewed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_promise_no_time_is_long_enough() {
        let promise = Promise::seen(None, renewal(7, None));
        advance(Duration::from_secs(1_000_000)).await;
        assert_eq!(promise.kept_since(MARGIN), None);
    }
}
