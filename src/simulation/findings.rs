//! The findings at the end of a run: its faults, and each saga according to its journal.

use std::collections::BTreeMap;

use super::SimulationError;
use super::run::Run;
use crate::chaos::audit;
use crate::chaos::experiment::verdict::{Findings, MigrationEnd, Mode};
use crate::db::Db;
use crate::db::api::operations::Operations;
use crate::domain::saga_record::SagaRecord;

/// The end of the run.
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
    let end_of = |saga: &SagaRecord| {
        let journal = records.journals.get(&saga.id).map_or(&[][..], Vec::as_slice);
        MigrationEnd::of(saga, journal, &injected, elapsed)
    };
    let migrations = records.sagas.iter().map(end_of).collect();
    let mut violations = run.watch.violations();
    violations.extend(end.report.violations.iter().cloned());
    let answers: BTreeMap<String, usize> = run.users.answers.borrow().iter().map(|(status, count)| (status.to_string(), *count)).collect();
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
