//! `cellshift chaos`: runs an experiment from its file and tells the verdict, or says what is wrong with the file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Failure;
use super::simulate::{quiet_experiments, read};
use crate::chaos::experiment::draw::drawn;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::html;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::text::{seconds, text};
use crate::chaos::experiment::verdict::{Conclusion, Findings, Verdict};
use crate::chaos::simulation::{self, Options, Teller};

/// The exit code when something did not hold.
const BROKEN: u8 = 3;
/// The exit code when nothing was found broken, but the run gave up or something did not answer the audit.
const INCOMPLETE: u8 = 4;
/// The exit code when there was no run: the file is refused, or nothing can be started.
const IMPOSSIBLE: u8 = 5;

#[derive(Subcommand)]
pub(super) enum Chaos {
    /// Run an experiment: a cloud of its own, users, faults, and a verdict.
    ///
    /// Ends with 0 when all held, 3 when something did not, 4 when nothing was found broken but the run gave up or something did not
    /// answer the audit, and 5 when there was no run, such as for a file that is refused.
    Run(Run),
    /// Say what is wrong with experiments' files, each with its line; 0 when nothing is, 5 otherwise.
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Args)]
pub(super) struct Run {
    /// The experiment (TOML, docs/EXPERIMENTS.md).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// In a live process: in real time, over HTTP, with SQLite files in a temporary directory.
    #[arg(long)]
    live: bool,
    /// The seed, in place of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also write the verdict as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write it as a page with the timeline of each migration, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do not tell on standard error what happens while it happens.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(asked: &Chaos) -> ExitCode {
    let done = match asked {
        Chaos::Run(asked) => experiment(asked),
        Chaos::Check { files } => check(files),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("cellshift: {failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

fn check(files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut refused = Vec::new();
    for file in files {
        match read(file) {
            Ok(scenario) => println!("{}: {}", file.display(), scenario.title),
            Err(failure) => refused.push(failure.to_string()),
        }
    }
    if refused.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(refused.join("\ncellshift: ").into()) }
}

fn experiment(asked: &Run) -> Result<ExitCode, Failure> {
    let mut scenario = read(&asked.file)?;
    scenario.seed = asked.seed.unwrap_or(scenario.seed);
    if scenario.title.is_empty() {
        scenario.title = asked.file.display().to_string();
    }
    quiet_experiments();
    let planned = drawn(scenario.seed, &scenario);
    let findings = found(&scenario, &planned, asked)?;
    let verdict = Verdict::of(&scenario, &planned, findings);
    if let Some(file) = &asked.json {
        write(file, &(serde_json::to_string_pretty(&verdict)? + "\n"))?;
    }
    if let Some(file) = &asked.html {
        write(file, &html::page(&verdict))?;
    }
    std::io::stdout().lock().write_all(text(&verdict).as_bytes())?;
    Ok(match verdict.conclusion {
        Conclusion::Held => ExitCode::SUCCESS,
        Conclusion::Broken => ExitCode::from(BROKEN),
        Conclusion::Incomplete => ExitCode::from(INCOMPLETE),
    })
}

fn write(file: &Path, content: &str) -> Result<(), Failure> {
    Ok(std::fs::write(file, content).map_err(|error| format!("{} cannot be written: {error}", file.display()))?)
}

fn found(scenario: &Scenario, planned: &[PlannedFault], asked: &Run) -> Result<Findings, Failure> {
    let options = Options { teller: (!asked.quiet).then(teller), ..Options::default() };
    let run = if asked.live { simulation::live::run_with } else { simulation::run_with };
    Ok(run(scenario.seed, scenario, planned, &options)?.findings)
}

/// Progress, on standard error: nobody may be reading.
fn teller() -> Teller {
    Teller::new(|at_ms, line| {
        let _ = writeln!(std::io::stderr().lock(), "{:>12}  {line}", seconds(at_ms));
    })
}
