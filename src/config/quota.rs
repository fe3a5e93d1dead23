//! The section `[quota]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::quota::{Limits, default_limits};

/// The default limits of projects; -1 means no limit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Servers.
    pub instances: i64,
    /// Virtual CPUs of all servers.
    pub cores: i64,
    /// Memory of all servers, in MiB.
    pub ram: i64,
    /// Metadata items of a server.
    pub metadata_items: i64,
    /// Key pairs of a user.
    pub key_pairs: i64,
    /// Server groups.
    pub server_groups: i64,
    /// Members of a server group.
    pub server_group_members: i64,
    /// Files that a create or a rebuild puts into a server.
    pub injected_files: i64,
    /// The content of such a file, in bytes.
    pub injected_file_content_bytes: i64,
    /// The path of such a file, in bytes.
    pub injected_file_path_length: i64,
    /// If true, used cores and memory are the project's allocations in placement, including both sides of a move; if false, each server
    /// counts once, by its flavor.
    pub count_usage_from_placement: bool,
    /// If true, the commit that accepts a server checks its quota again, so that concurrent requests cannot exceed it together.
    pub recheck_quota: bool,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            instances: 10,
            cores: 20,
            ram: 50 * 1024,
            metadata_items: 128,
            key_pairs: 100,
            server_groups: 10,
            server_group_members: 10,
            injected_files: 5,
            injected_file_content_bytes: 10 * 1024,
            injected_file_path_length: 255,
            count_usage_from_placement: false,
            recheck_quota: true,
        }
    }
}

impl Quota {
    /// Returns the limits by resource, with those that have no option.
    pub fn limits(&self) -> Limits {
        let mut limits = default_limits();
        limits.extend(
            [
                ("instances", self.instances),
                ("cores", self.cores),
                ("ram", self.ram),
                ("metadata_items", self.metadata_items),
                ("key_pairs", self.key_pairs),
                ("server_groups", self.server_groups),
                ("server_group_members", self.server_group_members),
                ("injected_files", self.injected_files),
                ("injected_file_content_bytes", self.injected_file_content_bytes),
                ("injected_file_path_bytes", self.injected_file_path_length),
            ]
            .map(|(resource, limit)| (resource.to_owned(), limit)),
        );
        limits
    }
}
