//! The schemas of request bodies, by their requests. A test reads them, and says of each field what becomes of it.

use super::compute::schema::Schema;
use super::{compute, ops, placement};

/// Returns each schema with its request.
pub fn all() -> Vec<(&'static str, &'static Schema)> {
    [
        compute::servers::schemas::ALL,
        compute::aggregates::SCHEMAS,
        compute::assisted_volume_snapshots::SCHEMAS,
        compute::flavors::SCHEMAS,
        compute::hosts::SCHEMAS,
        compute::keypairs::SCHEMAS,
        compute::proxies::SCHEMAS,
        compute::quota_class_sets::SCHEMAS,
        compute::quota_sets::SCHEMAS,
        compute::server_external_events::SCHEMAS,
        compute::server_groups::SCHEMAS,
        compute::services::SCHEMAS,
        placement::SCHEMAS,
        ops::SCHEMAS,
    ]
    .concat()
}
