//! Deterministic simulation (docs/FAULT-MODEL.md): the real actors, sagas, scheduler, handlers and database code on one
//! thread under tokio's paused clock, over in-memory databases. The seed decides what users ask, what goes wrong, how long
//! messages take and which ids are made; so a seed replays to the same trace. After the last fault everything must become
//! quiet, with a clean audit; what must hold at every instant is looked at during the run. `live` runs the same in real time, on files
//! and over HTTP; it does not replay, and what only the databases know is looked at in the end.

mod cloud;
mod door;
mod driver;
mod findings;
pub mod live;
pub mod minimise;
mod run;
mod stage;
#[cfg(test)]
mod tests;
mod trace;
mod travellers;
mod users;
mod virtual_env;
mod watch;
mod witnessed;

use std::fmt;
use std::sync::Arc;

use self::stage::Stage;
use super::experiment::draw;
use super::experiment::fault::PlannedFault;
use super::experiment::scenario::Scenario;
use super::experiment::verdict::Findings;

/// How a run is recorded.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep every line of the trace, not only the last ones.
    pub whole_trace: bool,
    /// Who is told at once of faults and of what else a watcher should see.
    pub teller: Option<Teller>,
}

/// Someone who is told while a run goes on: milliseconds since the beginning, and a line.
#[derive(Clone)]
pub struct Teller(Arc<Tell>);

type Tell = dyn Fn(u64, &str) + Send + Sync;

impl Teller {
    /// Tells by calling this.
    pub fn new(tell: impl Fn(u64, &str) + Send + Sync + 'static) -> Teller {
        Teller(Arc::new(tell))
    }

    fn tell(&self, at_ms: u64, line: &str) {
        (self.0)(at_ms, line);
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// Why a run came to no verdict.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Bootstrap(#[from] crate::bootstrap::BootstrapError),
    #[error(transparent)]
    Launch(#[from] crate::launch::LaunchError),
    #[error(transparent)]
    Database(#[from] crate::db::DbError),
    #[error("the run's folder, threads or runtime fail: {0}")]
    Io(#[from] std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Of the whole trace.
    pub hash: String,
    pub lines: u64,
    /// The last lines, or all.
    pub trace: Vec<String>,
    pub findings: Findings,
}

impl Outcome {
    /// Nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.findings.is_good()
    }

    /// Resizes and cold migrations that were accepted.
    pub fn moves(&self) -> usize {
        self.findings.migrations.iter().filter(|migration| migration.is_move()).count()
    }

    /// Those that reached their target.
    pub fn moved(&self) -> usize {
        self.findings.migrations.iter().filter(|migration| migration.arrived()).count()
    }
}

/// Runs a seed with the faults that it stands for.
pub fn run(seed: u64, scenario: &Scenario, options: &Options) -> Result<Outcome, SimulationError> {
    run_with(seed, scenario, &draw::drawn(seed, scenario), options)
}

/// Runs a seed's workload with these faults.
pub fn run_with(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Outcome, SimulationError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    actix_rt::System::with_tokio_rt(|| runtime).block_on(async {
        let stage = Stage::open(seed, scenario, faults, options).await?;
        stage.run(seed).await
    })
}
