//! A server that was created in a named zone stays in that zone; any other may go anywhere (INVARIANTS C7).

use super::super::config::SchedulerConfig;
use super::{HostFilter, HostState, Reason, Request};

/// See the file's description.
pub struct AvailabilityZoneFilter {
    default_zone: String,
}

impl AvailabilityZoneFilter {
    /// Makes the filter with the zone of hosts without an aggregate that names one.
    pub fn new(config: &SchedulerConfig) -> AvailabilityZoneFilter {
        AvailabilityZoneFilter { default_zone: config.default_availability_zone.clone() }
    }
}

impl HostFilter for AvailabilityZoneFilter {
    fn name(&self) -> &'static str {
        "AvailabilityZoneFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        let zone = host.availability_zone().unwrap_or(&self.default_zone);
        match &request.asked.request_spec.availability_zone {
            Some(wanted) if wanted != zone => Err(format!("not in availability zone {wanted}")),
            _ => Ok(()),
        }
    }

    fn judges_forced_host(&self) -> bool {
        true
    }
}
