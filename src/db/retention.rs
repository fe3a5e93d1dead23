//! The retention of databases: removes records of deleted servers, ended operations, drains and moves of groups, and old history in batches.
//!
//! Each cell is purged for itself, so a cell that does not answer delays only its own records. The API database goes first: a crash in between
//! leaves deleted records in the cell, which the next run removes. Fences go last, once a server's counters are gone.

use std::ops::AddAssign;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::operations::Operations;
use super::api::retention::OldOperation;
use super::cell::CellDb;
use super::cell::retention::History;
use super::{Db, DbError, fence};
use crate::domain::reason;
use crate::domain::saga_record::JournalEntry;

/// The number of records in one commit.
const BATCH: i64 = 200;

/// The moments before which records are removed; none keeps them for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Before {
    /// The delete of a server.
    pub deleted_servers: Option<DateTime<Utc>>,
    /// The end of an operation, a drain or a move of a group.
    pub operations: Option<DateTime<Utc>>,
    /// The end of an instance action or a migration, and a fault.
    pub history: Option<DateTime<Utc>>,
}

/// The numbers of removed records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    pub servers: usize,
    pub operations: usize,
    pub drains: usize,
    pub group_moves: usize,
    pub actions: usize,
    pub faults: usize,
    pub migrations: usize,
    pub fences: usize,
}

impl AddAssign for Removed {
    fn add_assign(&mut self, more: Removed) {
        self.servers += more.servers;
        self.operations += more.operations;
        self.drains += more.drains;
        self.group_moves += more.group_moves;
        self.actions += more.actions;
        self.faults += more.faults;
        self.migrations += more.migrations;
        self.fences += more.fences;
    }
}

/// Receives each server's records before they are removed. An error keeps the records.
pub type Archive<'a> = &'a (dyn Fn(Value) -> std::io::Result<()> + Sync);

/// Removes records.
#[derive(Clone)]
pub struct Retention {
    pub operations: Operations,
    pub before: Before,
    /// If false, counts what would be removed.
    pub removes: bool,
}

impl Retention {
    /// Purges a cell: its servers that were deleted long ago, and its history.
    pub async fn of_cell(&self, uuid: Uuid, name: &str, cell: &CellDb, archive: Option<Archive<'_>>) -> Result<Removed, DbError> {
        let mut removed = Removed::default();
        if let Some(before) = self.before.deleted_servers {
            let mut after = None;
            loop {
                let page = cell.deleted_before(before, after, BATCH).await?;
                let Some(last) = page.last() else { break };
                after = Some(*last);
                removed.servers += self.servers((uuid, name), cell, page, archive).await?;
            }
        }
        while let Some(before) = self.before.history {
            let History { actions, faults, migrations } = cell.purge_history(before, BATCH, self.removes).await?;
            removed += Removed { actions, faults, migrations, ..Removed::default() };
            if !self.removes || actions + faults + migrations == 0 {
                break;
            }
        }
        Ok(removed)
    }

    async fn servers(
        &self,
        (uuid, name): (Uuid, &str),
        cell: &CellDb,
        page: Vec<Uuid>,
        archive: Option<Archive<'_>>,
    ) -> Result<usize, DbError> {
        let old = self.operations.forgettable(uuid, page).await?;
        if !self.removes {
            return Ok(old.len());
        }
        if let Some(archive) = archive {
            for server in &old {
                let records = json!({
                    "server": server,
                    "cell": name,
                    "records": cell.export_deleted(*server).await?,
                    "operations": self.operations.operations_of(*server).await?.iter().map(archived).collect::<Vec<_>>(),
                });
                let unwritten = |error: std::io::Error| DbError::Unavailable { name: "the archive".into(), reason: reason!("{error}") };
                archive(records).map_err(unwritten)?;
            }
        }
        let forgotten = self.operations.forget_servers(uuid, old).await?;
        let count = forgotten.len();
        cell.purge_servers(forgotten).await?;
        Ok(count)
    }

    /// Purges the API database: operations, drains and moves of groups that ended long ago, and counters without a server.
    pub async fn of_operations(&self) -> Result<Removed, DbError> {
        let mut removed = Removed::default();
        let Some(before) = self.before.operations else { return Ok(removed) };
        let db = &self.operations;
        removed.operations = self.in_batches(|most| db.ended_before(before, most), |old| db.forget_operations(old)).await?;
        removed.drains = self.in_batches(|most| db.drains_ended_before(before, most), |old| db.forget_drains(old)).await?;
        removed.group_moves = self.in_batches(|most| db.group_moves_ended_before(before, most), |old| db.forget_group_moves(old)).await?;
        if self.removes {
            let alone = self.operations.counters_alone(BATCH).await?;
            self.operations.forget_counters(alone).await?;
        }
        Ok(removed)
    }

    /// Has `forget` remove what `read` finds, batch by batch, and returns how many there were. Only counts them unless this removes.
    async fn in_batches<Old, Forgotten>(&self, read: impl Fn(i64) -> Old, forget: impl Fn(Vec<Uuid>) -> Forgotten) -> Result<usize, DbError>
    where
        Old: Future<Output = Result<Vec<Uuid>, DbError>>,
        Forgotten: Future<Output = Result<(), DbError>>,
    {
        let mut count = 0;
        loop {
            let old = read(if self.removes { BATCH } else { i64::MAX }).await?;
            count += old.len();
            if !self.removes || old.is_empty() {
                return Ok(count);
            }
            forget(old).await?;
        }
    }

    /// Removes a database's fences of servers that are forgotten.
    pub async fn fences(&self, db: &Db) -> Result<usize, DbError> {
        let (mut removed, mut after) = (0, None);
        loop {
            let page = db.read(move |conn| fence::servers(conn, after, BATCH)).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            let forgotten = self.operations.forgotten(page).await?;
            removed += forgotten.len();
            if self.removes && !forgotten.is_empty() {
                db.write(move |conn| fence::forget(conn, &forgotten)).await?;
            }
        }
        Ok(removed)
    }
}

fn archived((saga, journal): &OldOperation) -> Value {
    let line = |entry: &JournalEntry| {
        json!({
            "seq": entry.seq, "step": entry.step, "side": entry.side, "attempt": entry.attempt,
            "event": entry.event, "error": entry.error, "at": entry.at,
        })
    };
    json!({
        "id": saga.id, "kind": saga.kind, "state": saga.state.as_str(), "error": saga.error,
        "created_at": saga.created_at, "updated_at": saga.updated_at,
        "journal": journal.iter().map(line).collect::<Vec<_>>(),
    })
}
