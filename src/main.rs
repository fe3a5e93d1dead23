//! The command line: parses, dispatches, and reports failures.

use std::process::ExitCode;

use cellshift::cli;
use clap::Parser;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
