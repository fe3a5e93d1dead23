//! The hidden `cellshift below PARENT -- PROGRAM…`: becomes the program, which the system kills when the parent ends, however it ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use super::Failure;

/// The program and its parent.
#[derive(Args)]
pub(super) struct Below {
    /// The id of the parent's process.
    #[arg(value_name = "PARENT")]
    parent: i32,
    /// The program with its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    line: Vec<OsString>,
}

/// Becomes the program. Returns only if that is not possible.
pub(super) fn run(options: &Below) -> Failure {
    if let Err(error) = die_with_parent() {
        return format!("the system cannot end this process with its parent: {error}").into();
    }
    // A parent that ended before the request would not end this process any more.
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent != Some(options.parent) {
        return "the parent has ended".into();
    }
    let Some((program, arguments)) = options.line.split_first() else { return "there is no program".into() };
    let error = Command::new(program).args(arguments).exec();
    format!("{} cannot be run: {error}", program.display()).into()
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> std::io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Other systems have no such request: there the children of a command that is killed live on.
#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(())
}
