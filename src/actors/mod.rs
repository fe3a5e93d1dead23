//! The supervision tree: one file or folder per actor, its messages at the top of the file, with the parts that only it uses.

pub mod agents;
pub mod cell;
pub mod compute_host;
pub mod conductor;
pub mod death_count;
pub mod host_facts;
pub mod hosts_here;
pub mod notifier;
pub mod periodic;
pub mod root;
pub mod scheduler;
pub mod service_report;
#[cfg(test)]
mod tests;

// Supervision is a crate of its own; its parts have the names here that they had before.
pub use cellshift_supervision::{self as supervision, address, arbiters};
