//! The network service's records: networks and subnets, ports with addresses, their bindings, security groups, QoS policies.
//!
//! Lists and objects that nobody queries by stand as JSON in TEXT columns; the service reads and writes them.

pub mod bindings;
pub mod networks;
pub mod ports;
pub mod qos;
mod schema;
pub mod security_groups;
pub mod subnets;

/// Which records a query is about.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    All,
    /// Those with, or that belong to things with, these ids.
    These(&'a [String]),
}
