//! Assumed claims: what the decisions of this scheduler have chosen and may not see in each other's look at placement.
//!
//! A decision looks at the hosts and claims later, so decisions made at once would all see the same room and choose the same host. Each one
//! therefore takes the claims from the hosts' room that were chosen meanwhile and that its own look may have missed: those without an answer
//! yet, and those that landed after its look began. They only change preferences: placement alone decides whether there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::host_state::HostState;
use crate::domain::flavor::Resources;

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
        Look { claims: self.clone(), began }
    }
}

impl Look {
    /// Takes from the hosts' free amounts what others than `consumer` have chosen and this look may have missed.
    pub fn count(&self, hosts: &mut [HostState], consumer: Uuid) {
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
        if usage.is_empty() {
            return;
        }
        for host in hosts {
            let Some(sum) = usage.get(&host.provider()) else { continue };
            let Some(offer) = &mut host.in_placement else { continue };
            offer.free.vcpu -= sum.vcpu;
            offer.free.memory_mb -= sum.memory_mb;
            offer.free.disk_gb -= sum.disk_gb;
        }
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
    use super::super::fixtures::{host, id, with_room};
    use super::*;

    const ONE: Resources = Resources { vcpu: 1, memory_mb: 512, disk_gb: 3 };

    /// Returns the free virtual CPUs of a host with eight, as this look counts them for `consumer`.
    fn free(look: &Look, consumer: &str) -> i64 {
        let mut hosts = [with_room(host("cell1", "h1"), Resources::default(), Resources { vcpu: 8, ..Resources::default() })];
        look.count(&mut hosts, id(consumer));
        hosts[0].free().vcpu
    }

    #[test]
    fn a_claim_counts_for_the_looks_that_may_have_missed_it() {
        let claims = AssumedClaims::default();
        let (mine, other) = (claims.look(), claims.look());
        let assumption = mine.assume(id("server"), id("h1"), ONE);
        let elsewhere = mine.assume(id("third"), id("h2"), ONE);
        assert_eq!(free(&other, "other"), 7, "chosen, not yet landed");
        assert_eq!(free(&other, "server"), 8, "a server does not stand in its own way");
        assumption.landed();
        assert_eq!(free(&other, "other"), 7, "landed after this look began");
        let later = claims.look();
        assert_eq!(free(&later, "other"), 8, "this look sees the claim in placement");
        drop(elsewhere);
        drop((mine, other));
        assert!(claims.held.lock().claims.is_empty(), "nothing is kept that all looks see");
        drop(later);
        assert!(claims.held.lock().looks.is_empty());
    }

    #[test]
    fn a_failed_claim_counts_no_longer() {
        let claims = AssumedClaims::default();
        let look = claims.look();
        let assumption = look.assume(id("server"), id("h1"), ONE);
        assert_eq!(free(&look, "other"), 7);
        drop(assumption);
        assert_eq!(free(&look, "other"), 8);
    }
}
