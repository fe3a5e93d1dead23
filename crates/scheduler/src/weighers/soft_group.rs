//! Soft server group policies: together or apart when possible, counted over the members' hosts in all cells.

use super::{HostState, Request, weigher};
use cellshift_domain::server_group::GroupPolicy;

/// Members of a soft-affinity group on the host.
pub struct ServerGroupSoftAffinityWeigher;

/// Members of a soft-anti-affinity group on the host, negative.
pub struct ServerGroupSoftAntiAffinityWeigher;

fn members_on(policy: GroupPolicy, host: &HostState, request: &Request) -> f64 {
    let group = request.group.as_ref().filter(|group| group.policy == policy);
    group.map_or(0.0, |group| group.others_on(request.demand.request_spec.instance_uuid, host.name()) as f64)
}

weigher!(ServerGroupSoftAffinityWeigher by soft_affinity_weight_multiplier:
    |host, request| members_on(GroupPolicy::SoftAffinity, host, request));

weigher!(ServerGroupSoftAntiAffinityWeigher by soft_anti_affinity_weight_multiplier:
    |host, request| -members_on(GroupPolicy::SoftAntiAffinity, host, request));
