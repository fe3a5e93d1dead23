//! Host aggregates. The metadata key `availability_zone` makes an aggregate an availability zone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::compute_host::HostAggregate;

/// The metadata key whose value is the name of the availability zone.
pub const ZONE_KEY: &str = "availability_zone";

/// A host aggregate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Aggregate {
    pub id: i32,
    pub uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    /// No two aggregates share a name.
    pub name: String,
    pub hosts: BTreeSet<String>,
    /// The metadata include the zone's name.
    pub metadata: BTreeMap<String, String>,
}

impl Aggregate {
    /// Returns the zone of the aggregate's hosts.
    pub fn availability_zone(&self) -> Option<&str> {
        self.metadata.get(ZONE_KEY).map(String::as_str)
    }

    /// Returns the zone that one of the aggregates gives a host; none if no aggregate does.
    pub fn zone_of<'a>(mut aggregates: impl Iterator<Item = &'a Aggregate>, host: &str) -> Option<&'a str> {
        aggregates.find_map(|aggregate| aggregate.availability_zone().filter(|_| aggregate.hosts.contains(host)))
    }
}

/// The aggregates of a host. Cheap to clone.
#[derive(Clone, Default)]
pub struct Membership {
    /// The aggregates that contain the host, ordered by id.
    pub aggregates: Arc<[HostAggregate]>,
    /// The zone that one of the aggregates gives the host; none if no aggregate does.
    pub zone: Option<Arc<str>>,
}

impl Membership {
    fn new(aggregates: Arc<[HostAggregate]>) -> Membership {
        let zone = aggregates.iter().find_map(|aggregate| aggregate.metadata.get(ZONE_KEY)).map(|zone| Arc::from(zone.as_str()));
        Membership { aggregates, zone }
    }
}

/// The aggregates of each host.
#[derive(Default)]
pub struct Memberships {
    /// Hosts that are in the same aggregates share them.
    by_host: HashMap<String, Membership, RandomState>,
    none: Membership,
    /// The zones of all aggregates, also of those without hosts.
    zones: BTreeSet<String>,
}

impl Memberships {
    /// Makes the memberships of these aggregates, ordered by id.
    pub fn new(all: &[Aggregate]) -> Memberships {
        let mut places: HashMap<&String, Vec<usize>> = HashMap::new();
        for (place, aggregate) in all.iter().enumerate() {
            for host in &aggregate.hosts {
                places.entry(host).or_default().push(place);
            }
        }
        let facts = |aggregate: &Aggregate| HostAggregate { name: aggregate.name.clone(), metadata: aggregate.metadata.clone() };
        let mut shared: HashMap<Vec<usize>, Membership> = HashMap::new();
        let mut of_places = |places: Vec<usize>| {
            let make = || Membership::new(places.iter().map(|place| facts(&all[*place])).collect());
            shared.entry(places.clone()).or_insert_with(make).clone()
        };
        let by_host = places.into_iter().map(|(host, places)| (host.clone(), of_places(places))).collect();
        let zones = all.iter().filter_map(Aggregate::availability_zone).map(str::to_owned).collect();
        Memberships { by_host, none: Membership::default(), zones }
    }

    /// Returns the aggregates of the host.
    pub fn of(&self, host: &str) -> &Membership {
        self.by_host.get(host).unwrap_or(&self.none)
    }

    /// Returns the zone that one of the aggregates gives the host; none if no aggregate does.
    pub fn zone_of(&self, host: &str) -> Option<&str> {
        self.of(host).zone.as_deref()
    }

    /// True if an aggregate has this zone.
    pub fn has_zone(&self, zone: &str) -> bool {
        self.zones.contains(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_zone_of_any_of_its_aggregates() {
        let aggregate = |id: i32, hosts: &[&str], zone: Option<&str>| Aggregate {
            id,
            uuid: Uuid::from_u128(1),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: None,
            name: format!("aggregate {id}"),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            metadata: zone.map(|zone| (ZONE_KEY.to_owned(), zone.to_owned())).into_iter().collect(),
        };
        let all = [aggregate(1, &["h1", "h2"], None), aggregate(2, &["h2"], Some("east")), aggregate(3, &[], Some("west"))];
        let memberships = Memberships::new(&all);
        assert_eq!(["h1", "h2", "h3"].map(|host| memberships.zone_of(host)), [None, Some("east"), None]);
        let names = |host| memberships.of(host).aggregates.iter().map(|aggregate| aggregate.name.clone()).collect::<Vec<_>>();
        assert_eq!(names("h2"), ["aggregate 1", "aggregate 2"]);
        assert!(memberships.has_zone("west") && !memberships.has_zone("north"), "an aggregate without hosts has its zone");
    }
}
