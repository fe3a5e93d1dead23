//! cellshift: a multi-cell compute control plane that speaks the OpenStack Compute API.

#![forbid(unsafe_code)]
// `println!` and similar macros panic if the reader has gone away, so the command line writes through `cli::terminal`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod actors;
pub mod agent;
pub mod bootstrap;
pub mod cell_registry;
pub mod chaos;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod config;
pub mod db;
pub mod demo;
pub mod descriptors;
pub mod http;
pub mod launch;
pub mod logging;
pub mod policy_file;
pub mod private_file;
pub mod reconcilers;
pub mod runner;
pub mod saga;
pub mod signals;
pub mod simulation;
pub mod timeline;

// The crates below this one have the names here that its layers had before them.
pub use cellshift_domain as domain;
pub use cellshift_env::{self as env, metrics, traces};
pub use cellshift_host::virt;
pub use cellshift_neighbours as services;

/// All work consists of small allocations that live for one message, also in SQLite. This allocator takes much less time for them than the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
