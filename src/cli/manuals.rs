//! `cellshift completions SHELL` and `cellshift man DIR`: what shells and `man` know of the commands, made from their definitions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::terminal;
use super::{Cli, Failure};

const NAME: &str = "cellshift";

/// Prints the shell's completions.
pub(super) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    terminal::out(format_args!("{}", String::from_utf8_lossy(&script)));
    ExitCode::SUCCESS
}

/// Writes a page for the program and for each command into a directory, which is made if it is missing.
pub(super) fn pages(directory: &Path) -> Result<ExitCode, Failure> {
    let unwritable = |path: &Path, error: std::io::Error| Failure::from(format!("{} cannot be written: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, error))?;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    for (name, text) in rendered(&program, NAME)? {
        let path: PathBuf = directory.join(name);
        std::fs::write(&path, text).map_err(|error| unwritable(&path, error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the names and texts of the pages of a command and of those below it.
fn rendered(command: &Command, name: &str) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut text = Vec::new();
    // clap keeps the name for its own lifetime; the few names of one run may stay.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    clap_mangen::Man::new(command.clone().name(title)).render(&mut text)?;
    let mut pages = vec![(format!("{name}.1"), text)];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages.extend(rendered(below, &format!("{name}-{}", below.get_name()))?);
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let pages = rendered(&Cli::command(), NAME).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["cellshift.1", "cellshift-migrations.1", "cellshift-chaos-load.1"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let text = |name: &str| String::from_utf8_lossy(&pages.iter().find(|(page, _)| page == name).unwrap().1).into_owned();
        assert!(text("cellshift-drain.1").contains("Move all servers off a host"));
    }
}
