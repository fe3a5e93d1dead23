//! A server that was created in a named zone stays in that zone; any other may go anywhere (INVARIANTS C7).

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::reason;

/// See the file's description.
pub struct AvailabilityZoneFilter;

impl HostFilter for AvailabilityZoneFilter {
    fn name(&self) -> &'static str {
        "AvailabilityZoneFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match &request.demand.request_spec.availability_zone {
            Some(zone) if **zone != *host.availability_zone => Err(reason!("not in availability zone {zone}")),
            _ => Ok(()),
        }
    }

    fn judges_forced_host(&self) -> bool {
        true
    }
}
