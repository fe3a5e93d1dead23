//! Tells messages that come late, without a comparison of two machines' clocks. Each message says when it was sent by its sender's
//! monotonic clock. The receiver subtracts this from its own: the difference is the distance of both clocks and the time on the way. The
//! least difference of a sender is that of its quickest message, so the excess over it is the time for which a message was held up.
//!
//! Two monotonic clocks drift apart, by some seconds a day. So only the quickest message of the last minutes counts.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use crate::wire::Stamp;

/// The time after which the quickest message is looked for anew. The last quickest counts for as long again.
const WINDOW: Duration = Duration::from_secs(300);
/// The maximum number of senders that are remembered.
const SENDERS_MAX: usize = 256;

/// The quickest messages of all senders, by which late ones are judged.
#[derive(Default)]
pub(crate) struct Freshness {
    senders: HashMap<Uuid, LeastDifferences>,
}

/// The least differences between arrivals by the receiver's clock and sendings by the sender's, in microseconds: the difference of a message
/// that nothing held up.
struct LeastDifferences {
    /// The beginning of the window, by the receiver's clock.
    since: Duration,
    in_window: i128,
    before: i128,
    /// The last arrival.
    arrival: Duration,
}

impl Freshness {
    /// True if the message was held up for longer than its sender waits. The first message of a sender is never late.
    pub fn is_late(&mut self, stamp: &Stamp, arrival: Duration) -> bool {
        self.delay(stamp, arrival) > i128::try_from(stamp.patience.as_micros()).unwrap_or(i128::MAX)
    }

    fn delay(&mut self, stamp: &Stamp, arrival: Duration) -> i128 {
        let micros = |time: Duration| i128::try_from(time.as_micros()).unwrap_or(i128::MAX);
        let difference = micros(arrival) - micros(stamp.sent);
        self.make_room(&stamp.sender);
        let first = || LeastDifferences { since: arrival, in_window: difference, before: difference, arrival };
        let least = self.senders.entry(stamp.sender).or_insert_with(first);
        if arrival.saturating_sub(least.since) > WINDOW {
            *least = LeastDifferences { since: arrival, in_window: difference, before: least.in_window, arrival };
        }
        least.in_window = least.in_window.min(difference);
        least.arrival = arrival;
        difference - least.in_window.min(least.before)
    }

    /// Forgets the sender that has been quiet for longest, if a new one would be too many.
    fn make_room(&mut self, sender: &Uuid) {
        if self.senders.len() < SENDERS_MAX || self.senders.contains_key(sender) {
            return;
        }
        let quietest = self.senders.iter().min_by_key(|(_, differences)| differences.arrival).map(|(sender, _)| *sender);
        if let Some(quietest) = quietest {
            self.senders.remove(&quietest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sent(sender: u128, at: u64) -> Stamp {
        Stamp { sender: Uuid::from_u128(sender), sent: Duration::from_millis(at), patience: SECOND }
    }

    fn is_late(freshness: &mut Freshness, stamp: &Stamp, arrival: u64) -> bool {
        freshness.is_late(stamp, Duration::from_millis(arrival))
    }

    #[test]
    fn a_held_up_message_is_late_whatever_the_clocks_say() {
        for distance in [0, 7_000_000] {
            let mut freshness = Freshness::default();
            assert!(!is_late(&mut freshness, &sent(1, 5_000), 5_020 + distance), "nothing is known yet");
            assert!(!is_late(&mut freshness, &sent(1, 6_000), 6_900 + distance));
            assert!(is_late(&mut freshness, &sent(1, 7_000), 8_100 + distance));
            assert!(!is_late(&mut freshness, &sent(1, 9_000), 9_005 + distance));
            assert!(!is_late(&mut freshness, &sent(2, 1_000), 9_006 + distance), "another sender has another clock");
        }
    }

    #[test]
    fn a_clock_that_drifts_makes_nothing_late() {
        let mut freshness = Freshness::default();
        // A hundred times the drift of a bad clock, for a day.
        for second in 0..86_400 {
            assert!(!is_late(&mut freshness, &sent(1, second * 1_000), second * 1_001), "{second}");
        }
    }

    #[test]
    fn the_number_of_remembered_senders_is_bounded() {
        let mut freshness = Freshness::default();
        for sender in 0..1_000 {
            assert!(!is_late(&mut freshness, &sent(sender, 0), u64::try_from(sender).unwrap()));
        }
        assert_eq!(freshness.senders.len(), SENDERS_MAX);
        assert!(is_late(&mut freshness, &sent(999, 1), 5_000), "the last ones are remembered");
    }
}
