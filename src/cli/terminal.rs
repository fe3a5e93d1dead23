//! Text on standard output and standard error. A reader that has gone away, as `head` does, makes a command neither panic nor fail:
//! the rest of its text goes nowhere, and its exit code says what it always says.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why standard output took no more.
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

/// Writes text to standard output as it is.
pub(super) fn out(text: Arguments<'_>) {
    if is_gone() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        // Another thread may have met the same.
        let _ = STOPPED.set(error);
    }
}

/// Writes text to standard error as it is; nobody may be reading.
pub(super) fn err(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Whether standard output takes no more: a command with much to say may end.
pub(super) fn is_gone() -> bool {
    STOPPED.get().is_some()
}

/// The exit code of a command that would end with this one: another when its text is lost, as on a full disk.
pub(super) fn ended(code: ExitCode) -> ExitCode {
    match STOPPED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}
