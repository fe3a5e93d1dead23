//! Soft server group policies: together or apart when possible, counted over the members' hosts in all cells.

use super::{HostState, HostWeigher, Request, SchedulerConfig};
use cellshift_domain::server_group::GroupPolicy;

/// Members of a soft-affinity group on the host.
pub struct ServerGroupSoftAffinityWeigher;

/// Members of a soft-anti-affinity group on the host, negative.
pub struct ServerGroupSoftAntiAffinityWeigher;

fn members_on(policy: GroupPolicy, host: &HostState, request: &Request) -> f64 {
    let group = request.group.as_ref().filter(|group| group.policy == policy);
    group.map_or(0.0, |group| group.others_on(request.demand.request_spec.instance_uuid, host.name()) as f64)
}

impl HostWeigher for ServerGroupSoftAffinityWeigher {
    fn name(&self) -> &'static str {
        "ServerGroupSoftAffinityWeigher"
    }

    fn weigh(&self, host: &HostState, request: &Request) -> f64 {
        members_on(GroupPolicy::SoftAffinity, host, request)
    }

    fn multiplier_option(&self) -> &'static str {
        "soft_affinity_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.soft_affinity_weight_multiplier
    }
}

impl HostWeigher for ServerGroupSoftAntiAffinityWeigher {
    fn name(&self) -> &'static str {
        "ServerGroupSoftAntiAffinityWeigher"
    }

    fn weigh(&self, host: &HostState, request: &Request) -> f64 {
        -members_on(GroupPolicy::SoftAntiAffinity, host, request)
    }

    fn multiplier_option(&self) -> &'static str {
        "soft_anti_affinity_weight_multiplier"
    }

    fn multiplier(&self, config: &SchedulerConfig) -> f64 {
        config.soft_anti_affinity_weight_multiplier
    }
}
