//! I20: a move past the scheduler stands in its server's history under a name of its own, so that operators find servers that were forced.

use uuid::Uuid;

use super::report::{Findings, Violation};
use super::snapshot::Snapshot;
use crate::domain::saga_record::SagaRecord;
use crate::domain::saga_state::SagaState;
use crate::saga::context::{Context, Kind};

/// Finds violations of I20.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    for saga in snapshot.sagas.iter().filter(|saga| saga.state == SagaState::Done && !snapshot.busy.contains(&saga.server)) {
        let Some((request, host)) = forced(saga) else { continue };
        let Some(cell) = home(snapshot, saga.server) else { continue };
        let is_recorded = cell.iter().any(|(server, of)| *server == saga.server && *of == request);
        if !is_recorded {
            let message = format!(
                "it was forced to {host} by request {request}, expected FORCED_MIGRATE or FORCED_REBUILD among the actions of server {}",
                saga.server
            );
            findings.add("I20", format!("migration {}", saga.id), message);
        }
    }
    findings.done()
}

/// Returns the request and the host of a move that was forced.
fn forced(saga: &SagaRecord) -> Option<(String, String)> {
    // Contexts are long: only those of moves are read.
    Kind::parse(&saga.kind).filter(|kind| kind.operation().is_move)?;
    let context: Context = serde_json::from_str(&saga.context).ok()?;
    let host = context.part().forced_host()?.to_owned();
    Some((context.caller.request_id.clone(), host))
}

/// Returns the forced actions in the cell with the server's history; none if it is silent, or the server is gone.
fn home(snapshot: &Snapshot, server: Uuid) -> Option<&[(Uuid, String)]> {
    let mapping = snapshot.mappings.iter().find(|mapping| mapping.instance_uuid == server && !snapshot.is_leaving(mapping))?;
    let cell = snapshot.cells.get(snapshot.cell_names.get(&mapping.cell_uuid?)?)?;
    Some(&cell.records.forced_actions)
}
