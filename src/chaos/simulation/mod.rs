//! Deterministic simulation (reliability §4, layer 3): the real actors, sagas, scheduler, handlers and database code on one
//! thread under tokio's paused clock, over in-memory databases. The seed decides what users ask, what goes wrong, how long
//! messages take and which ids are made; so a seed replays to the same trace. After the last fault everything must become
//! quiet, with a clean audit; what must hold at every instant is looked at during the run.

mod cloud;
mod driver;
pub mod fault;
pub mod minimise;
mod plan;
mod post;
mod random;
pub mod scenario;
mod stage;
#[cfg(test)]
mod tests;
mod trace;
mod users;
mod virtual_env;
mod watch;

use std::collections::BTreeMap;

use self::fault::PlannedFault;
use self::scenario::Scenario;
use self::stage::Stage;
use super::audit::Violation;

/// How a run is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Keep every line of the trace, not only the last ones.
    pub whole_trace: bool,
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
    #[error("the simulation's folder or runtime cannot be made: {0}")]
    Io(#[from] std::io::Error),
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// Of the whole trace.
    pub hash: String,
    pub lines: u64,
    /// The last lines, or all.
    pub trace: Vec<String>,
    pub violations: Vec<Violation>,
    /// What did not answer the audit.
    pub unreachable: Vec<String>,
    /// Lives of the controller.
    pub lives: u32,
    pub sagas: usize,
    /// Resizes and cold migrations that were accepted.
    pub moves: usize,
    /// Those that reached their target.
    pub moved: usize,
    /// Answers to users by status; 0 for none.
    pub answers: BTreeMap<u16, usize>,
    pub virtual_ms: u64,
}

impl Outcome {
    /// Nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.unreachable.is_empty()
    }
}

/// Runs a seed with the faults that it stands for.
pub fn run(seed: u64, scenario: &Scenario, options: Options) -> Result<Outcome, SimulationError> {
    run_with(seed, scenario, &fault::drawn(seed, scenario), options)
}

/// Runs a seed's workload with these faults.
pub fn run_with(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: Options) -> Result<Outcome, SimulationError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    actix_rt::System::with_tokio_rt(|| runtime).block_on(async {
        let stage = Stage::open(seed, scenario, faults, options).await?;
        stage.run(seed).await
    })
}
