//! Host aggregates. The metadata key `availability_zone` makes an aggregate an availability zone.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
