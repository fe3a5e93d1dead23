//! `cellshift simulate`: runs seeds of the deterministic simulation, each twice if requested, and prints how to repeat a failure.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use parking_lot::Mutex;

use super::Failure;
use super::output::counted;
use super::progress::Progress;
use super::terminal::{self, say};
use crate::chaos::experiment::check::{self, Complaint};
use crate::chaos::experiment::draw::drawn;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::scenario::Scenario;
use crate::simulation::{Options, Outcome, minimise, run_with};

/// The exit code if a seed failed.
const FAILED: u8 = 3;

#[derive(Args)]
pub(super) struct Simulate {
    /// The seed to run.
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    seed: Option<u64>,
    /// The seeds to run, without the last one.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<Range<u64>>,
    /// The file of an experiment: what differs from the default run.
    #[arg(long, value_name = "F", alias = "scenario")]
    experiment: Option<PathBuf>,
    /// Run each seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Keep only these of the seed's faults, by number.
    #[arg(long, value_name = "I,J", value_delimiter = ',', num_args = 0..)]
    faults: Option<Vec<usize>>,
    /// Print the whole trace.
    #[arg(long)]
    trace: bool,
    /// The number of threads that run seeds [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not a range of seeds such as 0..100");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let seeds: Range<u64> = first.parse().map_err(|_| wrong())?..end.parse().map_err(|_| wrong())?;
    match seeds.is_empty() {
        true => Err(format!("{text:?} has no seed: the last one is not included, so it must be above the first, as in 0..100")),
        false => Ok(seeds),
    }
}

/// The results of all runs.
#[derive(Default)]
struct Total {
    seeds: u64,
    lines: u64,
    sagas: usize,
    moves: usize,
    moved: usize,
    faults: usize,
    failed: Vec<u64>,
}

pub(super) fn run(command: &Simulate) -> Result<ExitCode, Failure> {
    let scenario = match &command.experiment {
        None => Scenario::default(),
        Some(file) => read(file)?,
    };
    let seeds = command.seeds.clone().unwrap_or_else(|| command.seed.map_or(0..10, |seed| seed..seed + 1));
    quiet_experiments();
    let began = Instant::now();
    let progress = Progress::counting(seeds.end - seeds.start, "seed");
    let (next, total, broken) = (AtomicU64::new(seeds.start), Mutex::new(Total::default()), Mutex::new(None));
    let jobs = command.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end || terminal::is_gone() {
                        break;
                    }
                    if let Err(failure) = one(command, &scenario, seed, &total, &progress) {
                        *broken.lock() = Some(format!("seed {seed}: {failure}"));
                        next.store(seeds.end, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    drop(progress);
    if let Some(failure) = broken.lock().take() {
        return Err(failure.into());
    }
    let total = total.into_inner();
    Ok(conclude(&total, began))
}

/// Reads an experiment's file. A failure names the file, the line, and the allowed values.
pub(super) fn read(file: &Path) -> Result<Scenario, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("the experiment {} cannot be read: {error}", file.display()))?;
    match check::parse(&text) {
        Ok(scenario) => Ok(scenario),
        Err(complaints) => Err(refusal(file, &complaints)),
    }
}

/// Refuses an experiment if there are complaints about it.
pub(super) fn refused(file: &Path, complaints: &[Complaint]) -> Result<(), Failure> {
    if complaints.is_empty() { Ok(()) } else { Err(refusal(file, complaints)) }
}

fn refusal(file: &Path, complaints: &[Complaint]) -> Failure {
    let lines: Vec<String> = complaints.iter().map(|complaint| format!("\n  {}: {complaint}", file.display())).collect();
    format!("the experiment {} is refused:{}", file.display(), lines.concat()).into()
}

/// Hides the messages of simulated deaths, which the trace contains. Other panics are still printed.
pub(super) fn quiet_experiments() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if !said.starts_with("an experiment ") {
            usual(panic);
        }
    }));
}

fn one(command: &Simulate, scenario: &Scenario, seed: u64, total: &Mutex<Total>, progress: &Progress) -> Result<(), String> {
    let faults = drawn(seed, scenario);
    let numbers_of_faults: Vec<usize> = command.faults.clone().unwrap_or_else(|| (0..faults.len()).collect());
    let chosen: Vec<PlannedFault> = numbers_of_faults.iter().filter_map(|at| faults.get(*at).cloned()).collect();
    let options = &Options { whole_trace: command.trace, ..Options::default() };
    let outcome = run_with(seed, scenario, &chosen, options).map_err(|error| error.to_string())?;
    let again = match command.twice {
        true => Some(run_with(seed, scenario, &chosen, options).map_err(|error| error.to_string())?),
        false => None,
    };
    let replays = again.as_ref().is_none_or(|again| again.hash == outcome.hash);
    let mut total = total.lock();
    total.seeds += 1;
    total.lines += outcome.lines;
    total.sagas += outcome.findings.migrations.len();
    total.moves += outcome.moves();
    total.moved += outcome.moved();
    total.faults += chosen.len();
    progress.count();
    progress.aside(|| report(command, seed, &outcome, chosen.len(), replays));
    if outcome.is_good() && replays {
        return Ok(());
    }
    total.failed.push(seed);
    if !outcome.is_good() {
        progress.aside(|| explain(command, scenario, &outcome, &numbers_of_faults, &chosen)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Prints a seed's trace, if asked for, and its result.
fn report(command: &Simulate, seed: u64, outcome: &Outcome, faults: usize, replays: bool) {
    if command.trace {
        outcome.trace.iter().for_each(|line| say!("{line}"));
    }
    say!(
        "seed {seed}: {}, {} ({} arrived), {}, {}, {} s virtual, trace {} {}",
        counted(outcome.findings.migrations.len(), "saga"),
        counted(outcome.moves(), "move"),
        outcome.moved(),
        counted(faults, "fault"),
        if outcome.findings.lives == 1 { "1 life".to_owned() } else { format!("{} lives", outcome.findings.lives) },
        outcome.findings.elapsed_ms / 1000,
        outcome.hash.get(..16).unwrap_or_default(),
        if outcome.is_good() { "good" } else { "BAD" }
    );
    if !replays {
        say!("  a second run has another trace: the simulation is not deterministic here");
    }
}

/// Prints the violations, a smaller set of faults that shows them, and the command to repeat.
fn explain(
    command: &Simulate,
    scenario: &Scenario,
    outcome: &Outcome,
    numbers_of_faults: &[usize],
    faults: &[PlannedFault],
) -> Result<(), Failure> {
    for violation in &outcome.findings.violations {
        say!("  {violation}");
    }
    for silent in &outcome.findings.unreachable {
        say!("  no answer: {silent}");
    }
    let needed = minimise::minimised(outcome.findings.seed, scenario, faults)?;
    say!("  it needs {} of {}:", needed.len(), counted(faults.len(), "fault"));
    for at in &needed {
        say!("    {}: {}", numbers_of_faults[*at], faults[*at]);
    }
    let numbers: Vec<String> = needed.iter().map(|at| numbers_of_faults[*at].to_string()).collect();
    let experiment = command.experiment.as_ref().map_or_else(String::new, |file| format!(" --experiment {}", file.display()));
    say!("  again: cellshift simulate --seed {}{experiment} --trace --faults {}", outcome.findings.seed, numbers.join(","));
    Ok(())
}

fn conclude(total: &Total, began: Instant) -> ExitCode {
    let seconds = began.elapsed().as_secs_f64();
    say!(
        "{}, {}, {} ({} arrived), {}, {} in {seconds:.1} s: {:.0} moves a second",
        counted(total.seeds, "seed"),
        counted(total.sagas, "saga"),
        counted(total.moves, "move"),
        total.moved,
        counted(total.faults, "fault"),
        counted(total.lines, "trace line"),
        total.moves as f64 / seconds
    );
    if total.failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    let failed: Vec<String> = total.failed.iter().map(u64::to_string).collect();
    say!("{} failed: {}", failed.len(), failed.join(", "));
    ExitCode::from(FAILED)
}
