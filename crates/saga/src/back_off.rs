//! The pauses between tries.

use std::time::Duration;

/// The most doublings: by then every sensible bound is reached, and a multiplication cannot overflow.
const MOST_DOUBLINGS: u32 = 16;

/// A pause that doubles with each try, up to a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackOff {
    /// The pause before the second try.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl BackOff {
    /// Returns the pause after this many tries.
    pub fn pause(&self, tries: u32) -> Duration {
        self.first.saturating_mul(1 << tries.saturating_sub(1).min(MOST_DOUBLINGS)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_bound() {
        let back_off = BackOff { first: Duration::from_millis(50), longest: Duration::from_secs(10) };
        let pauses: Vec<u128> = [0, 1, 2, 3, 8, 9, u32::MAX].map(|tries| back_off.pause(tries).as_millis()).into();
        assert_eq!(pauses, [50, 50, 100, 200, 6400, 10_000, 10_000]);
    }
}
