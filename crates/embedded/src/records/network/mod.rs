//! The network service's records: networks and subnets, ports with addresses and bindings, routers, floating IPs, security groups, and QoS policies.
//!
//! Lists and objects that no query filters by are stored as JSON in TEXT columns; the service reads and writes them.

pub mod bindings;
pub mod floating_ips;
pub mod networks;
pub mod ports;
pub mod qos;
pub mod quotas;
pub mod routers;
mod schema;
pub mod security_groups;
pub mod subnet_pools;
pub mod subnets;

pub use super::Of;
