//! The fields of request bodies, by their requests. A test reads them, and says of each field what becomes of it.

use std::collections::BTreeSet;

use cellshift_embedded::identity::routes as identity;
use cellshift_embedded::image::routes as image;
use cellshift_embedded::network::routes as network;
use cellshift_embedded::placement::routes as placement;
use cellshift_embedded::volume::routes as volume;

use super::schema::Schema;
use super::{compute, ops};

/// Returns each schema with its request.
pub fn all() -> Vec<(&'static str, &'static Schema)> {
    [
        compute::servers::schemas().as_slice(),
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

/// Returns the fields of each request, over all APIs: of bodies that a schema checks, that a type parses, or that a table describes.
pub fn fields() -> Vec<(String, BTreeSet<String>)> {
    let of_schemas = all().into_iter().map(|(request, schema)| (request.to_owned(), schema.fields()));
    let types = [identity::BODIES, image::BODIES, volume::BODIES, network::BODIES].concat().concat();
    let of_types = types.into_iter().map(|(request, fields)| (request.to_owned(), fields()));
    of_schemas.chain(of_types).chain(network::attribute_bodies()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::microversion::COMPUTE;

    #[test]
    fn each_schema_is_right_and_tells_its_changes() {
        let last = COMPUTE.max.minor;
        for (request, schema) in all() {
            assert_eq!(schema.untold_change(last), None, "{request}");
            let wrong = (1..=last).find_map(|minor| schema.misfit(minor, &Value::Null).err());
            assert_eq!(wrong, None, "{request}");
        }
    }
}
