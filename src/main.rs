//! The command line: parse, dispatch, and say what went wrong.

use std::process::ExitCode;

use cellshift::cli;
use clap::Parser;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
