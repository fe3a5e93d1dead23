//! The hints `build_near_host_ip` and `cidr`: the host's address must be in the network around the given address.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::scheduler_hints::neighbourhood;

/// See the file's description.
pub struct SimpleCidrAffinityFilter;

impl HostFilter for SimpleCidrAffinityFilter {
    fn name(&self) -> &'static str {
        "SimpleCIDRAffinityFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        let Some(network) = neighbourhood(&request.demand.request_spec.scheduler_hints).map_err(Reason::public)? else { return Ok(()) };
        match host.node.host_ip.parse() {
            Ok(address) if network.contains(address) => Ok(()),
            _ => Err("is not near the address that build_near_host_ip names".into()),
        }
    }
}
