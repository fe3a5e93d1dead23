//! The schemas of the compute API's answers, a file per resource.

mod actions;
mod aggregates;
mod flavors;
mod hosts;
mod hypervisors;
mod keypairs;
mod migrations;
mod proxies;
mod quotas;
mod roots;
mod server_groups;
mod server_parts;
mod servers;
mod services;
mod usage;

use super::Route;

/// The tables, each with the root of its routes.
pub static TABLES: [(&str, &[Route]); 15] = [
    ("", roots::ROUTES),
    (ROOT, actions::ROUTES),
    (ROOT, aggregates::ROUTES),
    (ROOT, flavors::ROUTES),
    (ROOT, hosts::ROUTES),
    (ROOT, hypervisors::ROUTES),
    (ROOT, keypairs::ROUTES),
    (ROOT, migrations::ROUTES),
    (ROOT, proxies::ROUTES),
    (ROOT, quotas::ROUTES),
    (ROOT, server_groups::ROUTES),
    (ROOT, server_parts::ROUTES),
    (ROOT, servers::ROUTES),
    (ROOT, services::ROUTES),
    (ROOT, usage::ROUTES),
];

const ROOT: &str = "/compute/v2.1";
