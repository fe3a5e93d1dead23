//! Deterministic simulation (docs/FAULT-MODEL.md): the real actors, sagas, scheduler, handlers and database code on one thread, with
//! tokio's paused clock and in-memory databases. The seed decides requests, faults, delays and ids, so it replays to an equal trace. Rules
//! that always hold are checked during the run; after the last fault the cloud must become quiet with a clean audit. `live` runs in real
//! time, on files and over HTTP: it does not replay, and checks the databases only at the end. `cluster` does so with many processes.

mod api_client;
mod bandwidth;
mod cloud;
pub mod cluster;
mod driver;
mod findings;
pub mod live;
mod live_moves;
pub mod minimise;
mod operators;
mod run;
mod shelves;
mod sight;
mod stage;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_moves;
mod trace;
mod travellers;
mod users;
mod virtual_env;
mod watch;
mod witnessed;

use std::fmt;
use std::sync::Arc;

use self::stage::Stage;
use crate::chaos::experiment::draw;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::verdict::Findings;

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keeps all lines of the trace, not only the last ones.
    pub whole_trace: bool,
    /// A watcher who is told at once of faults and other important lines.
    pub teller: Option<Teller>,
}

/// A watcher of a run, who gets the milliseconds since the beginning and a line.
#[derive(Clone)]
pub struct Teller(Arc<Tell>);

type Tell = dyn Fn(u64, &str) + Send + Sync;

impl Teller {
    /// Wraps a function that gets the lines.
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

/// The reason why a run has no verdict.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(transparent)]
    Bootstrap(#[from] crate::bootstrap::BootstrapError),
    #[error(transparent)]
    Launch(#[from] crate::launch::LaunchError),
    #[error(transparent)]
    Database(#[from] crate::db::DbError),
    #[error(transparent)]
    Cluster(#[from] crate::cluster::ClusterError),
    #[error(transparent)]
    Client(#[from] crate::client::ClientError),
    #[error("the service's verdict cannot be read: {0}")]
    Verdict(#[from] serde_json::Error),
    #[error("the run's folder, threads or runtime fail: {0}")]
    Io(#[from] std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The hash of the whole trace.
    pub hash: String,
    pub lines: u64,
    /// The last lines, or all.
    pub trace: Vec<String>,
    pub findings: Findings,
}

impl Outcome {
    /// True if nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.findings.is_good()
    }

    /// Counts the accepted resizes and cold migrations.
    pub fn moves(&self) -> usize {
        self.findings.migrations.iter().filter(|migration| migration.is_move()).count()
    }

    /// Counts the moves that reached their target.
    pub fn moved(&self) -> usize {
        self.findings.migrations.iter().filter(|migration| migration.arrived()).count()
    }
}

/// Runs a seed with the faults that it draws.
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
