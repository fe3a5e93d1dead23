//! `cellshift config`: the configuration in force, what its options mean, and their schema.

use std::process::ExitCode;

use clap::Args;

use super::terminal::{out, say};
use super::{Failure, Options};
use crate::config::reference;

/// The form of the configuration.
#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    options: Options,
    /// Put each option's meaning, values and default above it, and the unset options as comments.
    #[arg(long)]
    explain: bool,
    /// Print the JSON schema of configuration files instead, for editors.
    #[arg(long, conflicts_with = "explain")]
    schema: bool,
}

/// Prints the configuration. Passwords are hidden.
pub(super) fn run(command: Show) -> Result<ExitCode, Failure> {
    if command.schema {
        say!("{}", serde_json::to_string_pretty(&reference::schema())?);
        return Ok(ExitCode::SUCCESS);
    }
    let config = command.options.load()?.without_passwords();
    let text = if command.explain { reference::explained(&config)? } else { config.to_toml()? };
    out(format_args!("{text}"));
    Ok(ExitCode::SUCCESS)
}
