//! The APIs over HTTP, one folder per service. `error` gives all errors their form, and `auth` authenticates.

pub mod access_log;
mod ahead;
pub mod arrival;
pub mod auth;
pub mod base_url;
pub mod clients;
pub mod compute;
pub mod error;
mod error_shape;
#[cfg(test)]
pub mod fixture;
pub mod front;
pub mod identity;
pub mod image;
pub mod in_process;
pub mod json;
pub mod limits;
pub mod metrics;
pub mod microversion;
pub mod network;
pub mod null_characters;
pub mod ops;
pub mod pace;
pub mod panic;
pub mod placement;
pub mod policy;
pub mod readiness;
pub mod request_id;
pub mod request_schemas;
pub mod roles;
pub mod server;
mod spans;
#[cfg(test)]
pub mod test_api;
pub mod ui;
pub mod volume;
