//! Quotas: what is counted, and how much of it a project gets when nobody has said otherwise.

use std::collections::BTreeMap;

/// Limits by resource; -1 is no limit.
pub type Limits = BTreeMap<String, i64>;

/// Every resource that has a quota, and its limit where nobody has set one.
pub const DEFAULTS: &[(&str, i64)] = &[
    ("cores", 20),
    ("fixed_ips", -1),
    ("floating_ips", -1),
    ("injected_file_content_bytes", 10_240),
    ("injected_file_path_bytes", 255),
    ("injected_files", 5),
    ("instances", 10),
    ("key_pairs", 100),
    ("metadata_items", 128),
    ("ram", 51_200),
    ("security_group_rules", -1),
    ("security_groups", -1),
    ("server_group_members", 10),
    ("server_groups", 10),
];

/// Limits where nobody has set any.
pub fn default_limits() -> Limits {
    DEFAULTS.iter().map(|(resource, limit)| ((*resource).to_owned(), *limit)).collect()
}

/// True when `used` and `more` go together under the limit of the resource.
pub fn fits(limits: &Limits, resource: &str, used: i64, more: i64) -> bool {
    let limit = limits.get(resource).copied().unwrap_or(-1);
    limit < 0 || used + more <= limit
}
