//! What the subcommands do; `main` parses and dispatches.

pub mod data_dir;
