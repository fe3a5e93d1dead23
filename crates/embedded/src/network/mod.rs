//! The network service: the attributes that requests may set, and the embedded implementation of [`NetworkService`].

mod attributes;
mod blocks;
pub mod change;
mod cidr;
mod embedded;
pub mod limits;
mod protocols;
pub mod records;
pub mod request_bodies;
pub mod values;

use crate::ServiceError;
pub use cellshift_neighbours::network::{
    ALLOCATION, FixedIp, FunctionKeys, GROUPS_NEED_SECURITY, HostKey, HostKeys, Network, NetworkService, NewPort, Port, PortBinding,
    PortRefusal, QUOTA_EXCEEDED,
};
pub use embedded::{EmbeddedNetwork, PortFilter, QUOTA_OPTIONS};

/// The MTU of a network if the request names none.
const DEFAULT_MTU: i32 = 1450;
