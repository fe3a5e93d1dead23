//! Random numbers from a seed: SplitMix64, implemented here so that a seed stays valid when libraries change.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns the stream with this name. Streams of different names are independent, so that a change of the faults does not change the
    /// workload.
    pub fn new(seed: u64, stream: &str) -> Random {
        let name = stream.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Random { state: seed ^ name };
        random.number();
        random
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// Returns a number in this range, with both ends.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true with this chance in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Picks an item; none if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64);
        items.get(usize::try_from(at).unwrap_or_default())
    }

    /// Puts the items into a random order, each order with the same chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_release() {
        let mut random = Random::new(7, "faults");
        let numbers: Vec<u64> = (0..3).map(|_| random.number()).collect();
        let mut again = Random::new(7, "faults");
        assert_eq!(numbers, (0..3).map(|_| again.number()).collect::<Vec<_>>());
        assert_ne!(Random::new(7, "workload").number(), numbers[0]);
        assert_ne!(Random::new(8, "faults").number(), numbers[0]);
        assert_eq!(Random { state: 0 }.number(), 0xe220_a839_7b1d_cdaf, "SplitMix64's first number from state 0");
    }

    #[test]
    fn a_shuffle_gives_every_order_its_share() {
        let (mut random, mut seen) = (Random::new(7, "shuffle"), BTreeMap::new());
        for _ in 0..6000 {
            let mut items = ["a", "b", "c"];
            random.shuffle(&mut items);
            *seen.entry(items.concat()).or_insert(0) += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|times| (850..1150).contains(times)), "{seen:?}");
    }
}
