//! Text on standard output and standard error. If the reader has gone away, as `head` does, a command neither panics nor fails: the rest of
//! its text is dropped, and its exit code stays.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The error with which standard output stopped.
static STOPPED: OnceLock<std::io::Error> = OnceLock::new();

/// Writes a line to standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::terminal::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes `cellshift: ` and a line to standard error.
macro_rules! complain {
    ($($text:tt)*) => { $crate::cli::terminal::err(format_args!("cellshift: {}\n", format_args!($($text)*))) };
}

pub(super) use {complain, say};

/// Writes text to standard output.
pub(super) fn out(text: Arguments<'_>) {
    if is_gone() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        // Another thread may have met the error first.
        let _ = STOPPED.set(error);
    }
}

/// Writes text to standard error, even if nobody reads it.
pub(super) fn err(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// True if standard output takes no more, so that a command with much output may end.
pub(super) fn is_gone() -> bool {
    STOPPED.get().is_some()
}

/// Returns the exit code of a command that would end with `code`: a failure if its text is lost, for example on a full disk.
pub(super) fn ended(code: ExitCode) -> ExitCode {
    match STOPPED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}
