//! The default quotas of a project, the limit of a port's addresses, and the form of a port's resource request.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form in which a port shows the resources that it asks for, as one of Neutron's extensions says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestFormat {
    /// `port-resource-request`: one group, for bandwidth only. Its id is the port's.
    Port,
    /// `port-resource-request-groups`: groups with ids of their own, for bandwidth and for packet rates.
    Groups,
}

/// The limits of projects that have none of their own; -1 means no limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The maximum number of fixed IPs of one port.
    pub max_fixed_ips_per_port: usize,
    /// Networks.
    pub quota_network: i64,
    /// Subnets.
    pub quota_subnet: i64,
    /// Subnet pools.
    pub quota_subnetpool: i64,
    /// Ports.
    pub quota_port: i64,
    /// Routers.
    pub quota_router: i64,
    /// Floating IPs.
    pub quota_floatingip: i64,
    /// Security groups.
    pub quota_security_group: i64,
    /// Rules of security groups.
    pub quota_security_group_rule: i64,
    /// The form of a port's `resource_request`: `port` or `groups`.
    pub resource_request_format: RequestFormat,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_fixed_ips_per_port: 5,
            quota_network: 100,
            quota_subnet: 100,
            quota_subnetpool: -1,
            quota_port: 500,
            quota_router: 10,
            quota_floatingip: 50,
            quota_security_group: 10,
            quota_security_group_rule: 100,
            resource_request_format: RequestFormat::Groups,
        }
    }
}

/// The quota of a resource that clients know but this service cannot create.
const OF_NOTHING: [(&str, i64); 1] = [("rbac_policy", 10)];

impl Limits {
    /// Returns the limits by resource name.
    pub fn by_resource(&self) -> BTreeMap<String, i64> {
        let own = [
            ("network", self.quota_network),
            ("subnet", self.quota_subnet),
            ("subnetpool", self.quota_subnetpool),
            ("port", self.quota_port),
            ("router", self.quota_router),
            ("floatingip", self.quota_floatingip),
            ("security_group", self.quota_security_group),
            ("security_group_rule", self.quota_security_group_rule),
        ];
        own.into_iter().chain(OF_NOTHING).map(|(resource, limit)| (resource.to_owned(), limit)).collect()
    }

    /// True if the resource has a quota.
    pub fn knows(&self, resource: &str) -> bool {
        self.by_resource().contains_key(resource)
    }
}
