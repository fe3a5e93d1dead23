//! The availability zone of a host: an aggregate's, or the default zone.

use super::catalog::Catalog;
use crate::db::DbError;
use crate::domain::aggregate::Aggregate;
use crate::domain::service::Service;

/// The zone of services that run no servers. No server can be created in it.
pub const INTERNAL_ZONE: &str = "internal";
/// The binary of compute services.
pub const COMPUTE: &str = "nova-compute";

/// A snapshot of the aggregates.
pub struct Zones {
    aggregates: Vec<Aggregate>,
    default: String,
}

impl Zones {
    /// Reads the aggregates.
    pub async fn read(api: &Catalog) -> Result<Zones, DbError> {
        Ok(Zones { aggregates: api.api.aggregates().await?, default: api.default_zone.clone() })
    }

    /// Returns a host's zone.
    pub fn of_host(&self, host: &str) -> &str {
        self.zone(host, None)
    }

    /// Returns the zone that a host would have outside an aggregate.
    pub fn of_host_without(&self, host: &str, aggregate: i32) -> &str {
        self.zone(host, Some(aggregate))
    }

    /// Returns the zone in which a service is listed.
    pub fn of_service(&self, service: &Service) -> &str {
        if service.binary == COMPUTE { self.of_host(&service.host) } else { INTERNAL_ZONE }
    }

    fn zone(&self, host: &str, without: Option<i32>) -> &str {
        let others = self.aggregates.iter().filter(|aggregate| Some(aggregate.id) != without);
        Aggregate::zone_of(others, host).unwrap_or(&self.default)
    }
}
