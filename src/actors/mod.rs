//! The supervision tree: one file or folder per actor, its messages at the top of the file.

pub mod address;
pub mod aggregate_members;
pub mod arbiters;
pub mod cell;
pub mod cell_registry;
pub mod compute_host;
pub mod conductor;
pub mod drains;
pub mod host_facts;
pub mod migration_view;
pub mod notifier;
pub mod periodic;
pub mod queued_deletes;
pub mod root;
pub mod scheduler;
pub mod service_report;
pub mod supervision;
#[cfg(test)]
mod tests;
