//! Hard server group policies, counted over the members' hosts in all cells.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::server_group::GroupPolicy;

/// A host has at most as many members of an anti-affinity group as the group allows.
pub struct ServerGroupAntiAffinityFilter;

/// The members of an affinity group are on one host.
pub struct ServerGroupAffinityFilter;

fn judge(policy: GroupPolicy, host: &HostState, request: &Request) -> Result<(), Reason> {
    let group = request.group.as_ref().filter(|group| group.policy == policy);
    match group.and_then(|group| group.violation(request.demand.request_spec.instance_uuid, host.name())) {
        Some(reason) => Err(reason),
        None => Ok(()),
    }
}

impl HostFilter for ServerGroupAntiAffinityFilter {
    fn name(&self) -> &'static str {
        "ServerGroupAntiAffinityFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        judge(GroupPolicy::AntiAffinity, host, request)
    }
}

impl HostFilter for ServerGroupAffinityFilter {
    fn name(&self) -> &'static str {
        "ServerGroupAffinityFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        judge(GroupPolicy::Affinity, host, request)
    }
}
