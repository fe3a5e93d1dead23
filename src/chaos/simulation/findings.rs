//! What is found at the end of a run: its faults, and each saga as its journal tells of it.

use std::collections::BTreeMap;

use super::SimulationError;
use super::run::Run;
use crate::actors::migration_view::steps_of;
use crate::chaos::audit;
use crate::chaos::experiment::verdict::{Findings, MigrationEnd, Mode, StepTold};
use crate::db::Db;
use crate::db::api::operations::Operations;

/// How the run ended.
pub struct End<'a> {
    pub mode: Mode,
    pub seed: u64,
    pub lives: usize,
    pub report: &'a audit::Report,
    pub servers_in_error: usize,
}

/// Reads the journals from the API database.
pub async fn of(run: &Run, api: &Db, end: End<'_>) -> Result<Findings, SimulationError> {
    let records = Operations::new(api.clone()).audit_records().await?;
    let elapsed = |at| run.clock.elapsed_at(at);
    let injected = run.record.all();
    let none = Vec::new();
    let migrations = records.sagas.iter().map(|saga| {
        let journal = records.journals.get(&saga.id).unwrap_or(&none);
        let mut told = MigrationEnd {
            uuid: saga.id,
            server: saga.server,
            saga: saga.kind.clone(),
            state: saga.state.clone(),
            error: saga.error.clone(),
            began_ms: elapsed(saga.created_at),
            ended_ms: elapsed(saga.updated_at),
            steps: steps_of(journal).iter().map(|step| StepTold::of(step, elapsed)).collect(),
            faults: Vec::new(),
            recovery_ms: None,
        };
        told.met(&injected);
        told
    });
    let migrations = migrations.collect();
    let mut violations = run.watch.violations();
    violations.extend(end.report.violations.iter().cloned());
    let answers: BTreeMap<u16, usize> = run.users.answers.borrow().clone();
    Ok(Findings {
        mode: end.mode,
        seed: end.seed,
        elapsed_ms: run.clock.elapsed_ms(),
        lives: end.lives,
        injected,
        migrations,
        violations,
        unreachable: end.report.checked.unreachable.clone(),
        answers,
        servers_in_error: end.servers_in_error,
        aborted: run.aborted.clone(),
    })
}
