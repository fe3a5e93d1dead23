//! `cellshift token rotate`: replaces the key that seals tokens, of a running service or a stopped one.

use std::process::ExitCode;

use clap::Subcommand;

use super::terminal::say;
use super::{Failure, Place};
use crate::env::Env;
use crate::services::identity::keys;

#[derive(Subcommand)]
pub(super) enum Token {
    /// Seal tokens with the next key from now on. Tokens of before stay good until they expire, and running services notice by themselves.
    ///
    /// The service may run or not. Services on other machines that share its databases need a copy of the keys' file before the next
    /// rotation: the key that is staged now is the one that seals then.
    Rotate {
        #[command(flatten)]
        place: Place,
        /// Also forget every key of before, as after a leak of the file: all tokens end at once, and operations cannot read the
        /// secrets that they have stored sealed.
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
    match (rotated.retired, rotated.forgotten) {
        (_, forgotten) if forget_old => say!("{forgotten} keys of before are forgotten: every token has ended."),
        (retired, 0) => say!("{retired} older keys still open what they sealed."),
        (retired, forgotten) => say!("{retired} older keys still open what they sealed; {forgotten} are forgotten."),
    }
    Ok(ExitCode::SUCCESS)
}
