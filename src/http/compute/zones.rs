//! Which availability zone a host is in: that of an aggregate, or the default one.

use super::catalog::Catalog;
use crate::db::DbError;
use crate::db::api::aggregates::Aggregate;
use crate::db::cell::services::Service;

/// The zone of services that run no servers; it is no zone to create servers in.
pub const INTERNAL_ZONE: &str = "internal";
/// The binary of compute services.
pub const COMPUTE: &str = "nova-compute";

/// The aggregates of this moment.
pub struct Zones {
    aggregates: Vec<Aggregate>,
    default: String,
}

impl Zones {
    /// Reads the aggregates.
    pub async fn read(api: &Catalog) -> Result<Zones, DbError> {
        Ok(Zones { aggregates: api.api.aggregates().await?, default: api.default_zone.clone() })
    }

    /// A host's zone.
    pub fn of_host(&self, host: &str) -> &str {
        self.zone(host, None)
    }

    /// The zone that a host would have if it left an aggregate.
    pub fn of_host_without(&self, host: &str, aggregate: i32) -> &str {
        self.zone(host, Some(aggregate))
    }

    /// The zone that a service is listed in.
    pub fn of_service(&self, service: &Service) -> &str {
        if service.binary == COMPUTE { self.of_host(&service.host) } else { INTERNAL_ZONE }
    }

    fn zone(&self, host: &str, without: Option<i32>) -> &str {
        let members = self.aggregates.iter().filter(|aggregate| Some(aggregate.id) != without && aggregate.hosts.contains(host));
        members.filter_map(Aggregate::availability_zone).next().unwrap_or(&self.default)
    }
}
