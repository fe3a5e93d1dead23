//! `cellshift token rotate`: replaces the key that seals tokens, of a running or a stopped service.

use std::process::ExitCode;

use cellshift_embedded::identity::keys;
use clap::Subcommand;

use super::output::counted;
use super::terminal::say;
use super::{Failure, Place};
use crate::env::Env;

#[derive(Subcommand)]
pub(super) enum Token {
    /// Seal tokens with the next key from now on. Present tokens stay valid until they expire, and running services notice the change.
    ///
    /// The service may run or not. Services on other machines that share its databases need a copy of the key file before the next
    /// rotation, because the key that is staged now will seal then.
    Rotate {
        #[command(flatten)]
        place: Place,
        /// Also drop all former keys, for example after a leak of the file. All tokens end at once, and operations cannot read their sealed
        /// secrets any more.
        #[arg(long)]
        forget_old: bool,
    },
}

/// Runs the subcommand.
pub(super) fn run(command: Token) -> Result<ExitCode, Failure> {
    let Token::Rotate { place, forget_old } = command;
    let file = place.load()?.token_keys();
    let rotated = keys::rotate(&file, Env::system().now(), forget_old)?;
    say!("Tokens are sealed with the next key, and another one is staged ({}).", file.display());
    let (retired, forgotten) = (rotated.retired, rotated.forgotten);
    let are = if forgotten == 1 { "is" } else { "are" };
    let open = if retired == 1 { "still opens what it sealed" } else { "still open what they sealed" };
    match forgotten {
        _ if forget_old => say!("{} {are} forgotten: every token has ended.", counted(forgotten, "older key")),
        0 => say!("{} {open}.", counted(retired, "older key")),
        _ => say!("{} {open}; {forgotten} {are} forgotten.", counted(retired, "older key")),
    }
    Ok(ExitCode::SUCCESS)
}
