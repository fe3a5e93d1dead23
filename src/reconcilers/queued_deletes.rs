//! Executes queued deletes when their cells answer again: a round finds the cells with queued deletes and begins one operation per server.
//! The API database keeps a request until the server's record is gone, so a later round finds the requests of a dead process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::future::join_all;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::cell::{CellDb, CellTxn};
use crate::domain::delete_request::DeleteRequest;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::migration::MigrationStatus;
use crate::domain::reason;
use crate::saga::context::{Context, Request};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operations::BeginOperation;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

/// The time limit for a cell's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of servers in one page.
const PAGE: i64 = 200;

/// The result of one server of a round.
enum Round {
    /// The delete has begun, or a later round tries again. Go on with the next server.
    Continue,
    /// The cell does not answer, or no operation can begin now: leave the rest to a later round.
    Stop,
}

/// Executes queued deletes.
pub struct QueuedDeletes {
    world: Arc<World>,
    conductor: Arc<dyn BeginOperation>,
}

impl QueuedDeletes {
    /// Makes an executor of the deletes that wait in this world.
    pub fn new(world: Arc<World>, conductor: Arc<dyn BeginOperation>) -> QueuedDeletes {
        QueuedDeletes { world, conductor }
    }

    /// Begins all deletes that can begin. The cells are looked at concurrently.
    pub async fn run_round(&self) {
        match self.world.api.cells_with_queued_deletes().await {
            Ok(cells) => drop(join_all(cells.into_iter().map(|cell| self.run_in(cell))).await),
            Err(error) => log::warn!("the queued deletes cannot be read, they are tried later: {error}"),
        }
    }

    async fn run_in(&self, cell: Uuid) {
        let (mut marker, mut silent) = (None, BTreeSet::new());
        loop {
            let page = match self.world.api.queued_deletes(Some(cell), marker, PAGE).await {
                Ok(page) => page,
                Err(error) => return log::warn!("the queued deletes cannot be read, they are tried later: {error}"),
            };
            let Some(last) = page.last() else { return };
            marker = Some(last.instance_uuid);
            let now = self.world.env.now();
            for mapping in page.iter().filter(|mapping| mapping.delete_request.as_ref().is_some_and(|request| request.is_due(now))) {
                match self.try_delete(mapping.instance_uuid, &mut silent).await {
                    Ok(Round::Continue) => {}
                    Ok(Round::Stop) => return,
                    Err(error) => {
                        return log::debug!(server:% = mapping.instance_uuid; "a queued delete waits for its cell: {error}");
                    }
                }
            }
        }
    }

    /// `silent` collects the cells that did not answer in this round, so that it waits for none of them twice.
    async fn try_delete(&self, server: Uuid, silent: &mut BTreeSet<String>) -> Result<Round, StepError> {
        if self.world.operations.holder(server).await?.is_some() {
            return Ok(Round::Continue);
        }
        // Read after the check for a holder: without a holder the mapping names the server's cell.
        let mapping = self.world.api.instance_mapping(server).await?;
        let (Some(cell), Some(request)) = (mapping.cell_uuid, mapping.delete_request.clone()) else { return Ok(Round::Continue) };
        let name = self.world.cell_name(cell)?;
        let db = self.world.cell(name)?;
        let record = match in_time(name, db.instance(server)).await {
            Err(DbError::NotFound(_)) => {
                history::queued_delete(&self.world, server, server, &request, None).await;
                self.world.api.settle_delete(server).await?;
                return Ok(Round::Continue);
            }
            other => other?,
        };
        if record.locked && !request.in_sight && !request.caller.is_admin() {
            self.refuse(&mapping, db, request).await?;
            return Ok(Round::Continue);
        }
        if let Some(other) = self.other_cell_is_silent(name, db, server, silent).await? {
            let why = format!("cell {other}, which the server came from, does not answer");
            if request.last_error.as_ref() != Some(&why) {
                self.world.api.note_queued_delete(server, why).await?;
            }
            return Ok(Round::Continue);
        }
        self.begin(server, request).await
    }

    /// Returns the silent cell of a move's source. A delete of a server that waits for confirm needs that cell, too.
    async fn other_cell_is_silent(
        &self,
        cell: &str,
        db: &CellDb,
        server: Uuid,
        silent: &mut BTreeSet<String>,
    ) -> Result<Option<String>, StepError> {
        let live = [MigrationStatus::Finished, MigrationStatus::Confirming, MigrationStatus::Reverting];
        let Some(migration) = in_time(cell, db.latest_migration(server, &live)).await? else { return Ok(None) };
        let source = self.world.cell_of_host(&migration.source_compute).await?;
        if source == cell {
            return Ok(None);
        }
        if !silent.contains(&source) {
            let answers = match self.world.cell(&source) {
                Ok(db) => in_time(&source, db.look()).await.is_ok(),
                Err(_) => false,
            };
            if !answers {
                silent.insert(source.clone());
            }
        }
        Ok(silent.contains(&source).then_some(source))
    }

    async fn begin(&self, server: Uuid, request: DeleteRequest) -> Result<Round, StepError> {
        match self.conductor.begin(delete_of(&self.world, server, &request)).await {
            Ok(saga) => {
                log::info!(server:% = server, migration:% = saga; "a queued delete is carried out");
                Ok(Round::Continue)
            }
            Err(refusal) => {
                log::warn!(server:% = server; "a queued delete cannot be carried out yet: {refusal}");
                let back_off = self.world.settings.back_off(request.attempts.saturating_add(1));
                let next = self.world.env.now() + TimeDelta::from_std(back_off).unwrap_or(TimeDelta::MAX);
                self.world.api.pause_queued_delete(server, reason!("{refusal}").stored(), next).await?;
                Ok(if matches!(refusal, Refusal::Unavailable(_)) { Round::Stop } else { Round::Continue })
            }
        }
    }

    /// Refuses the delete of a server that was locked when its cell was down. The server stays, and its history says why.
    async fn refuse(&self, mapping: &InstanceMapping, db: &CellDb, request: DeleteRequest) -> Result<(), StepError> {
        const WHY: &str = "the server is locked: the delete that was accepted while its cell was down is refused";
        let server = mapping.instance_uuid;
        let mut context = delete_of(&self.world, server, &request);
        context.project_id = mapping.project_id.clone();
        context.error = Some(WHY.into());
        let txn = history::action_started(CellTxn::new(), context.part());
        db.apply_unfenced(history::failed(txn, &self.world, context.part())).await?;
        history::queued_delete(&self.world, context.saga, server, &request, Some(WHY)).await;
        self.world.api.withdraw_delete(server).await?;
        log::warn!(server:% = server; "a queued delete is refused: the server is locked");
        Ok(())
    }
}

fn delete_of(world: &World, server: Uuid, request: &DeleteRequest) -> Context {
    Context::new(world.env.uuid(), request.caller.clone(), server, Request::of_delete(request))
}

async fn in_time<T>(cell: &str, answer: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
    let silent = |_| Err(DbError::Unavailable { name: cell.to_owned(), reason: reason!("no answer within {} s", PATIENCE.as_secs()) });
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(silent)
}
