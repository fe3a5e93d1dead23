//! Assumed claims: the choices of this scheduler's decisions that other decisions may not see in placement yet.
//!
//! A decision looks at the hosts and claims later, so concurrent decisions would all see the same room and choose the same host. Each decision
//! therefore subtracts from the hosts' free room the claims of others that its own look may have missed: claims without an answer yet, and
//! claims that placement accepted after the look began. Assumed claims only change preferences: placement alone decides whether there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::host_state::HostState;
use cellshift_domain::flavor::Resources;

/// The claims of the decisions in progress. Cheap to clone: the clones share them.
#[derive(Clone, Default)]
pub struct AssumedClaims {
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    /// Numbers looks, claims and landings in their order.
    last: u64,
    /// The beginnings of the looks in progress.
    looks: BTreeSet<u64>,
    claims: BTreeMap<u64, AssumedClaim>,
}

struct AssumedClaim {
    consumer: Uuid,
    provider: Uuid,
    amounts: Resources,
    /// When placement confirmed it. None before.
    landed: Option<u64>,
}

impl Held {
    fn tick(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Drops the landed claims that every look in progress has seen in placement.
    fn drop_seen(&mut self) {
        let oldest = self.looks.first().copied().unwrap_or(u64::MAX);
        self.claims.retain(|_, claim| claim.landed.is_none_or(|landed| landed > oldest));
    }
}

/// A decision's look at the hosts, from before the first question to placement until the decision's end.
pub struct Look {
    claims: AssumedClaims,
    began: u64,
    /// The amounts by which the hosts' free amounts are lessened, by provider.
    counted: BTreeMap<Uuid, Resources>,
}

/// A claim that was sent to placement. Forgotten when it is dropped before it has landed.
#[must_use = "a claim that is not kept is not counted"]
pub struct Assumption {
    claims: AssumedClaims,
    number: u64,
}

impl AssumedClaims {
    /// Begins a look.
    pub fn look(&self) -> Look {
        let mut held = self.held.lock();
        let began = held.tick();
        held.looks.insert(began);
        Look { claims: self.clone(), began, counted: BTreeMap::new() }
    }
}

impl Look {
    /// Subtracts from the hosts' free amounts the claims of others than `consumer` that this look may have missed. A further call with the
    /// same hosts first adds back what the last one subtracted.
    pub fn count(&mut self, hosts: &mut [HostState], consumer: Uuid) {
        let usage = self.missed(consumer);
        let before = std::mem::replace(&mut self.counted, usage);
        if self.counted.is_empty() && before.is_empty() {
            return;
        }
        let of = |usage: &BTreeMap<Uuid, Resources>, host: &HostState| usage.get(&host.provider()).copied().unwrap_or_default();
        for host in hosts {
            let (before, now) = (of(&before, host), of(&self.counted, host));
            let Some(offer) = &mut host.in_placement else { continue };
            offer.free.vcpu += before.vcpu - now.vcpu;
            offer.free.memory_mb += before.memory_mb - now.memory_mb;
            offer.free.disk_gb += before.disk_gb - now.disk_gb;
        }
    }

    /// Returns the claims of others than `consumer` that this look may have missed, by provider.
    fn missed(&self, consumer: Uuid) -> BTreeMap<Uuid, Resources> {
        let held = self.claims.held.lock();
        let missed =
            held.claims.values().filter(|claim| claim.consumer != consumer && claim.landed.is_none_or(|landed| landed > self.began));
        let mut usage: BTreeMap<Uuid, Resources> = BTreeMap::new();
        for claim in missed {
            let sum = usage.entry(claim.provider).or_default();
            sum.vcpu += claim.amounts.vcpu;
            sum.memory_mb += claim.amounts.memory_mb;
            sum.disk_gb += claim.amounts.disk_gb;
        }
        usage
    }

    /// Notes that `consumer` claims these amounts of a host now.
    pub fn assume(&self, consumer: Uuid, provider: Uuid, amounts: Resources) -> Assumption {
        let mut held = self.claims.held.lock();
        let number = held.tick();
        held.claims.insert(number, AssumedClaim { consumer, provider, amounts, landed: None });
        Assumption { claims: self.claims.clone(), number }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        let mut held = self.claims.held.lock();
        held.looks.remove(&self.began);
        held.drop_seen();
    }
}

impl Assumption {
    /// Notes that placement has the claim: looks that begin from now on see it there.
    pub fn landed(self) {
        let mut held = self.claims.held.lock();
        let now = held.tick();
        if let Some(claim) = held.claims.get_mut(&self.number) {
            claim.landed = Some(now);
        }
        held.drop_seen();
    }
}

impl Drop for Assumption {
    fn drop(&mut self) {
        let mut held = self.claims.held.lock();
        if held.claims.get(&self.number).is_some_and(|claim| claim.landed.is_none()) {
            held.claims.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{host, id, with_room};

    const ONE: Resources = Resources { vcpu: 1, memory_mb: 512, disk_gb: 3 };

    /// A look at one host with eight free virtual CPUs.
    struct LookAtHost {
        look: Look,
        hosts: [HostState; 1],
    }

    impl LookAtHost {
        fn begin(claims: &AssumedClaims) -> LookAtHost {
            let free = Resources { vcpu: 8, ..Resources::default() };
            LookAtHost { look: claims.look(), hosts: [with_room(host("cell1", "h1"), Resources::default(), free)] }
        }

        /// Returns the free virtual CPUs, counted for this consumer.
        fn free(&mut self, consumer: &str) -> i64 {
            self.look.count(&mut self.hosts, id(consumer));
            self.hosts[0].free().vcpu
        }
    }

    #[test]
    fn a_claim_counts_for_the_looks_that_may_have_missed_it() {
        let claims = AssumedClaims::default();
        let (mine, mut other) = (claims.look(), LookAtHost::begin(&claims));
        let assumption = mine.assume(id("server"), id("h1"), ONE);
        let elsewhere = mine.assume(id("third"), id("h2"), ONE);
        assert_eq!(other.free("other"), 7, "chosen, not yet landed");
        assert_eq!(other.free("server"), 8, "a server does not stand in its own way");
        assumption.landed();
        assert_eq!(other.free("other"), 7, "landed after this look began");
        let mut later = LookAtHost::begin(&claims);
        assert_eq!(later.free("other"), 8, "this look sees the claim in placement");
        drop(elsewhere);
        drop((mine, other));
        assert!(claims.held.lock().claims.is_empty(), "nothing is kept that all looks see");
        drop(later);
        assert!(claims.held.lock().looks.is_empty());
    }

    #[test]
    fn a_look_that_counts_again_counts_each_claim_once() {
        let claims = AssumedClaims::default();
        let (rival, mut look) = (claims.look(), LookAtHost::begin(&claims));
        let first = rival.assume(id("first"), id("h1"), ONE);
        assert_eq!(look.free("other"), 7);
        let second = rival.assume(id("second"), id("h1"), ONE);
        assert_eq!(look.free("other"), 6);
        drop(first);
        assert_eq!(look.free("other"), 7, "a failed claim counts no longer");
        drop(second);
        assert_eq!(look.free("other"), 8);
    }
}
