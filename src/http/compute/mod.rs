//! The Compute API, v2.1 with microversions: one file per resource, each with its routes.

pub mod answer;
pub mod extensions;
pub mod query;
pub mod schema;
pub mod servers;
pub mod versions;

use actix_web::web;

/// Every resource's routes, under one scope: the first scope of a prefix takes all its requests.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(web::scope("/compute/v2.1").configure(extensions::routes).configure(servers::routes));
}
