//! The fields of request bodies, by their requests. A test reads them, and says of each field what becomes of it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::schema::{Schema, fields_of};
use super::{compute, identity, image, network, ops, placement, volume};

/// A request whose body a type describes, and a function that lists the body's fields.
pub type RequestBody = (&'static str, fn() -> BTreeSet<String>);

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

/// Returns the fields of each request, over all APIs: of bodies that a schema checks, that a type parses, or that a table describes.
pub fn fields() -> Vec<(String, BTreeSet<String>)> {
    let of_schemas = all().into_iter().map(|(request, schema)| (request.to_owned(), schema.fields()));
    let types = [identity::BODIES, image::BODIES, volume::BODIES, network::BODIES].concat().concat();
    let of_types = types.into_iter().map(|(request, fields)| (request.to_owned(), fields()));
    of_schemas.chain(of_types).chain(network::attribute_bodies()).collect()
}

/// Returns the fields of a body that is parsed as a `T`. Other names of a field (`serde(alias)`) are not among them.
pub fn of_type<T: JsonSchema>() -> BTreeSet<String> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    fields_of(&settings.into_generator().into_root_schema_for::<T>().to_value())
}
