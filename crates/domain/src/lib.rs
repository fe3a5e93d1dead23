//! Pure rules and values: state machines, flavors, request specs, resources, microversions, policy. They use no actix, diesel, HTTP or
//! clock.

pub mod cancellation;
pub mod config_drive;
pub mod context;
pub mod delete_request;
pub mod drain;
pub mod failure;
pub mod fence;
pub mod flavor;
pub mod group_move;
pub mod guest;
pub mod guest_secrets;
pub mod host_network;
pub mod host_protocol;
pub mod host_query;
pub mod inside;
pub mod microversion;
pub mod migration;
pub mod moment;
pub mod nearest;
pub mod network_agent;
pub mod network_info;
pub mod notification;
pub mod policy;
pub mod port_request;
pub mod quota;
pub mod quota_grant;
pub mod request_spec;
pub mod saga_state;
pub mod scheduler_hints;
pub mod secret;
pub mod server;
pub mod server_group;
pub mod span;
pub mod trace;
pub mod wanted_zone;
