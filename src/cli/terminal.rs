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

/// Paints text for standard output in a colour or weight, by the terminal's code for it. Leaves it as it is without a terminal, on a terminal
/// without colours (`TERM=dumb`), and if `NO_COLOR` is set.
pub(super) fn paint(code: &str, text: &str) -> String {
    if has_colours() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// True if text on standard output may have colours.
pub(super) fn has_colours() -> bool {
    static COLOURS: OnceLock<bool> = OnceLock::new();
    *COLOURS.get_or_init(|| super::progress::can_redraw(&std::io::stdout()) && std::env::var_os("NO_COLOR").is_none())
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
