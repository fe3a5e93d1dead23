//! How much of what a project may have, and a port of addresses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limits that hold unless a project has its own; -1 is no limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Fixed IPs of one port at most.
    pub max_fixed_ips_per_port: usize,
    pub quota_network: i64,
    pub quota_subnet: i64,
    pub quota_port: i64,
    pub quota_security_group: i64,
    pub quota_security_group_rule: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_fixed_ips_per_port: 5,
            quota_network: 100,
            quota_subnet: 100,
            quota_port: 500,
            quota_security_group: 10,
            quota_security_group_rule: 100,
        }
    }
}

/// Quotas that clients know of things which this service cannot make.
const OF_NOTHING: [(&str, i64); 4] = [("router", 10), ("floatingip", 50), ("rbac_policy", 10), ("subnetpool", -1)];

impl Limits {
    /// By the resources' names.
    pub fn by_resource(&self) -> BTreeMap<String, i64> {
        let own = [
            ("network", self.quota_network),
            ("subnet", self.quota_subnet),
            ("port", self.quota_port),
            ("security_group", self.quota_security_group),
            ("security_group_rule", self.quota_security_group_rule),
        ];
        own.into_iter().chain(OF_NOTHING).map(|(resource, limit)| (resource.to_owned(), limit)).collect()
    }

    /// True when the resource has a quota.
    pub fn knows(&self, resource: &str) -> bool {
        self.by_resource().contains_key(resource)
    }
}
