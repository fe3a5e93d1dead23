//! The APIs over HTTP, one folder per service, behind the door of the crate `cellshift-web`, which `apis` describes them to.

pub mod access_log;
mod agent_hosts;
pub mod apis;
pub mod call;
pub mod compute;
pub mod front;
pub mod host_bytes;
pub mod in_process;
pub mod limits;
pub mod metrics;
pub mod ops;
pub mod policy;
pub mod readiness;
pub mod request_schemas;
pub mod server;
#[cfg(test)]
mod tests_of_errors;
#[cfg(test)]
mod tests_of_large_bodies;
pub mod ui;

// The parts of the door have the names here that they had before they were a crate.
pub use cellshift_web::{
    arrival, auth, base_url, clients, error, json, microversion, null_characters, pace, paging, panic, range, request_id, roles, schema,
    spans, streamed,
};
