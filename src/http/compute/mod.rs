//! The Compute API, v2.1 with microversions: one file per resource, each with its routes. All handlers except those of `/servers` share the
//! data in `catalog`.

pub mod aggregates;
pub mod answer;
pub mod assisted_volume_snapshots;
pub mod availability_zones;
pub mod body;
pub mod catalog;
pub mod extensions;
pub mod flavors;
pub mod hosts;
pub mod hypervisors;
pub mod keypairs;
pub mod limits;
pub mod migrations;
pub mod proxies;
pub mod query;
pub mod quota_class_sets;
pub mod quota_sets;
pub mod quota_usage;
pub mod removed;
pub mod server_external_events;
pub mod server_groups;
pub mod servers;
pub mod services;
pub mod simple_tenant_usage;
pub mod usage_audits;
pub mod versions;
pub mod zones;

use actix_web::web;

use super::schema;

/// Registers all resources' routes in one scope, because the first scope of a prefix takes all its requests.
pub fn configure(config: &mut web::ServiceConfig) {
    let scope = web::scope("/compute/v2.1")
        .configure(aggregates::routes)
        .configure(assisted_volume_snapshots::routes)
        .configure(availability_zones::routes)
        .configure(extensions::routes)
        .configure(flavors::routes)
        .configure(hosts::routes)
        .configure(hypervisors::routes)
        .configure(keypairs::routes)
        .configure(limits::routes)
        .configure(migrations::routes)
        .configure(proxies::routes)
        .configure(quota_class_sets::routes)
        .configure(quota_sets::routes)
        .configure(removed::routes)
        .configure(server_external_events::routes)
        .configure(server_groups::routes)
        .configure(servers::routes)
        .configure(services::routes)
        .configure(simple_tenant_usage::routes)
        .configure(usage_audits::routes);
    config.configure(servers::consoles::socket).service(scope);
}

#[cfg(test)]
mod tests;
