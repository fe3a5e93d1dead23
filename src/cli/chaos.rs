//! `cellshift chaos`: runs an experiment from its file and reports the verdict, or checks the file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::output::ServiceOptions;
use super::simulate::{quiet_experiments, read, refused};
use super::terminal::{self, complain, say};
use super::{Failure, chaos_service};
use crate::chaos::experiment::draw::drawn;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::html;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::service::unfit_for_cluster;
use crate::chaos::experiment::text::{seconds, text};
use crate::chaos::experiment::verdict::{Conclusion, Findings, Verdict};
use crate::env::Env;
use crate::simulation::{self, Options, Teller};

/// The exit code if an invariant or an expectation did not hold.
const BROKEN: u8 = 3;
/// The exit code if nothing was found broken, but the run gave up or a part did not answer the audit.
const INCOMPLETE: u8 = 4;
/// The exit code if there was no run: the file is refused, or the cloud cannot start.
const IMPOSSIBLE: u8 = 5;

#[derive(Subcommand)]
pub(super) enum Chaos {
    /// Run an experiment: a cloud of its own, users, faults, and a verdict.
    ///
    /// Exit codes: 0 if everything held, 3 if something did not, 4 if nothing was found broken but the run gave up or a part did not answer
    /// the audit, and 5 if there was no run, for example because the file is refused.
    Run(Run),
    /// Check experiments' files, and print each error with its line. Exit codes: 0 if there is no error, otherwise 5.
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Load an experiment into a running service, whose configuration has [chaos] enabled = true. Its faults affect that service's own
    /// cloud and users.
    ///
    /// Exit codes: 0 if it has begun; with --wait, those of run.
    Load(chaos_service::Load),
    /// Show the state of the experiment that was loaded last, and its verdict when it is over. Then the exit codes are those of run.
    #[command(visible_alias = "show")]
    Status(chaos_service::Status),
    /// End the experiment's faults at once. Its verdict follows when the affected operations have ended.
    Stop {
        #[command(flatten)]
        service: ServiceOptions,
    },
}

#[derive(Args)]
pub(super) struct Run {
    /// The experiment (TOML, docs/EXPERIMENTS.md).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run in a live process: in real time, over HTTP, with SQLite files in a temporary directory.
    #[arg(long)]
    live: bool,
    /// Run on a cluster of processes that is started for it and taken down afterwards: in real time, over HTTP, with an agent for each host. Needs
    /// nats-server.
    #[arg(long, conflicts_with = "live")]
    cluster: bool,
    /// The seed, instead of the file's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    reports: Reports,
    /// Do not report events on standard error while they happen.
    #[arg(long)]
    quiet: bool,
}

/// The files to which a verdict is also written.
#[derive(Args)]
pub(super) struct Reports {
    /// Also write the verdict as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the verdict as a self-contained page with the timeline of each migration.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Reports {
    /// Refuses files that could not be written after the run. Keeps their present contents.
    pub(super) fn check(&self) -> Result<(), Failure> {
        [&self.json, &self.html].into_iter().flatten().try_for_each(|file| writable(file))
    }

    pub(super) fn write(&self, verdict: &Verdict, again: Option<String>) -> Result<(), Failure> {
        if let Some(file) = &self.json {
            write(file, &(serde_json::to_string_pretty(verdict)? + "\n"))?;
        }
        if let Some(file) = &self.html {
            write(file, &html::page(verdict, &html::Origin { at: Env::system().now(), again }))?;
        }
        Ok(())
    }
}

/// Returns the exit code for a verdict.
pub(super) fn exit_code(verdict: &Verdict) -> ExitCode {
    match verdict.conclusion {
        Conclusion::Held => ExitCode::SUCCESS,
        Conclusion::Broken => ExitCode::from(BROKEN),
        Conclusion::Incomplete => ExitCode::from(INCOMPLETE),
    }
}

pub(super) fn run(options: Chaos) -> ExitCode {
    let done = match options {
        Chaos::Run(options) => experiment(&options),
        Chaos::Check { files } => check(&files),
        Chaos::Load(options) => chaos_service::load(options),
        Chaos::Status(options) => chaos_service::status(options),
        Chaos::Stop { service } => chaos_service::stop(service),
    };
    done.unwrap_or_else(|failure| {
        complain!("{failure}");
        ExitCode::from(IMPOSSIBLE)
    })
}

fn check(files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut refused = Vec::new();
    for file in files {
        match read(file) {
            Ok(scenario) => say!("{}: {}", file.display(), scenario.title),
            Err(failure) => refused.push(failure.to_string()),
        }
    }
    if refused.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(refused.join("\ncellshift: ").into()) }
}

fn experiment(command: &Run) -> Result<ExitCode, Failure> {
    let mut scenario = read(&command.file)?;
    scenario.seed = command.seed.unwrap_or(scenario.seed);
    if scenario.title.is_empty() {
        scenario.title = command.file.display().to_string();
    }
    if command.cluster {
        refused(&command.file, &unfit_for_cluster(&scenario))?;
    }
    command.reports.check()?;
    quiet_experiments();
    let planned = drawn(scenario.seed, &scenario);
    let findings = findings(&scenario, &planned, command)?;
    let verdict = Verdict::of(&scenario, &planned, findings);
    terminal::out(format_args!("{}", text(&verdict)));
    command.reports.write(&verdict, Some(again(command, verdict.findings.seed)))?;
    Ok(exit_code(&verdict))
}

fn writable(file: &Path) -> Result<(), Failure> {
    let is_new = !file.exists();
    let opened = std::fs::File::options().create(true).append(true).open(file);
    opened.map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    if is_new {
        std::fs::remove_file(file)?;
    }
    Ok(())
}

/// Returns the command that repeats the run.
fn again(command: &Run, seed: u64) -> String {
    let mode = match (command.live, command.cluster) {
        (true, _) => " --live",
        (_, true) => " --cluster",
        _ => "",
    };
    format!("cellshift chaos run {} --seed {seed}{mode}", quoted(&command.file.display().to_string()))
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn write(file: &Path, content: &str) -> Result<(), Failure> {
    Ok(std::fs::write(file, content).map_err(|error| format!("{} cannot be written: {error}", file.display()))?)
}

fn findings(scenario: &Scenario, planned: &[PlannedFault], command: &Run) -> Result<Findings, Failure> {
    let options = Options { teller: (!command.quiet).then(teller), ..Options::default() };
    if command.cluster {
        return Ok(simulation::cluster::run_with(scenario.seed, scenario, planned, &options)?);
    }
    let run = if command.live { simulation::live::run_with } else { simulation::run_with };
    Ok(run(scenario.seed, scenario, planned, &options)?.findings)
}

/// Prints progress on standard error, even if nobody reads it.
fn teller() -> Teller {
    Teller::new(|at_ms, line| {
        let _ = writeln!(std::io::stderr().lock(), "{:>12}  {line}", seconds(at_ms));
    })
}
