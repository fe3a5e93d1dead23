//! Removes old records of operations, and what the API database knows of servers that were deleted long ago.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::dsl::{exists, not};
use diesel::prelude::*;
use uuid::Uuid;

use super::debts::debts;
use super::journal::{entries_of, journal};
use super::operations::{Operations, SagaRow, operations, parse, record, sagas};
use super::ownership::ownership;
use super::schema::{build_requests, instance_mappings, request_specs, server_group_members};
use crate::db::columns::Sql;
use crate::db::{Conn, DbError, fence};
use crate::domain::saga_record::{JournalEntry, SagaRecord};
use crate::domain::saga_state::SagaState;

diesel::allow_tables_to_appear_in_same_query!(sagas, ownership);
diesel::allow_tables_to_appear_in_same_query!(debts, operations);
diesel::alias!(sagas as later: Later);

/// The kind of an operation that waits for a confirm or a revert after its end.
pub(super) const MOVE: &str = "resize";
/// The kinds that end such a wait.
pub(super) const ENDS_OF_MOVES: [&str; 3] = ["confirm", "revert", "delete"];

/// An operation with its journal.
pub type OldOperation = (SagaRecord, Vec<JournalEntry>);

impl Operations {
    /// Returns those of a cell's deleted servers that nothing needs any more: no operation holds them, nothing is owed, no host may run them,
    /// and no other cell has them.
    pub async fn forgettable(&self, cell: Uuid, servers: Vec<Uuid>) -> Result<Vec<Uuid>, DbError> {
        self.db().read(move |conn| forgettable(conn, cell, servers)).await
    }

    /// Returns the operations of a server with their journals.
    pub async fn operations_of(&self, server: Uuid) -> Result<Vec<OldOperation>, DbError> {
        self.db()
            .read(move |conn| {
                let rows = sagas::table.filter(sagas::server_uuid.eq(server.to_string())).order((sagas::created_at, sagas::id));
                let rows: Vec<SagaRow> = rows.load(conn)?;
                let with_journal = |row: SagaRow| {
                    let record = record(row)?;
                    let entries = entries_of(conn, record.id)?;
                    Ok((record, entries))
                };
                rows.into_iter().map(with_journal).collect()
            })
            .await
    }

    /// Forgets deleted servers in one commit: mappings, request specs, operations with journals, and the counters behind their fences. Returns
    /// those that are [`Operations::forgettable`] still; the others keep everything.
    pub async fn forget_servers(&self, cell: Uuid, servers: Vec<Uuid>) -> Result<Vec<Uuid>, DbError> {
        self.db()
            .write(move |conn| {
                let servers = forgettable(conn, cell, servers)?;
                for server in &servers {
                    forget(conn, *server)?;
                }
                Ok(servers)
            })
            .await
    }

    /// Returns at most `limit` operations that ended before this moment and that nothing needs any more: they owe nothing, and they are no
    /// move that waits for its confirm or revert.
    pub async fn ended_before(&self, before: DateTime<Utc>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        self.db().read(move |conn| ended_before(conn, before.naive_utc(), limit)).await
    }

    /// Removes these operations with their journals, in one commit.
    pub async fn forget_operations(&self, ids: Vec<Uuid>) -> Result<(), DbError> {
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        self.db()
            .write(move |conn| {
                diesel::delete(journal::table.filter(journal::saga_id.eq_any(&ids))).execute(conn)?;
                diesel::delete(sagas::table.filter(sagas::id.eq_any(&ids))).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Returns at most `limit` servers that have no record but the counters of their fences: their creates were refused, and the operations
    /// have been removed.
    pub async fn counters_alone(&self, limit: i64) -> Result<Vec<Uuid>, DbError> {
        self.db().read(move |conn| counters_alone(conn, limit)).await
    }

    /// Removes these counters in one commit, unless the servers have operations again.
    pub async fn forget_counters(&self, servers: Vec<Uuid>) -> Result<(), DbError> {
        self.db()
            .write(move |conn| {
                let alone: BTreeSet<Uuid> = counters_alone(conn, i64::MAX)?.into_iter().collect();
                servers.iter().filter(|server| alone.contains(server)).try_for_each(|server| forget(conn, *server))
            })
            .await
    }

    /// Returns those of the servers whose fences this deployment has forgotten. A server's fences can be forgotten as soon as it has no
    /// counters: whatever was sent under them ended, was refused or timed out a day ago at least, because a server is forgotten that long
    /// after the end of its last operation (`[retention]`), and no step waits that long for an answer.
    pub async fn forgotten(&self, servers: Vec<Uuid>) -> Result<Vec<Uuid>, DbError> {
        let ids: Vec<String> = servers.iter().map(Uuid::to_string).collect();
        let rows = move |conn: &mut Conn| -> Result<Vec<String>, DbError> {
            Ok(ownership::table.filter(ownership::server_uuid.eq_any(&ids)).select(ownership::server_uuid).load(conn)?)
        };
        let remembered = self.db().read(move |conn| rows(conn)?.iter().map(|id| parse(id)).collect::<Result<BTreeSet<Uuid>, _>>()).await?;
        Ok(servers.into_iter().filter(|server| !remembered.contains(server)).collect())
    }
}

fn forgettable(conn: &mut Conn, cell: Uuid, servers: Vec<Uuid>) -> Result<Vec<Uuid>, DbError> {
    let mut forgettable = Vec::new();
    for server in servers {
        let id = server.to_string();
        let held: i64 = operations::table.filter(operations::server_uuid.eq(&id)).count().get_result(conn)?;
        let owed: i64 = debts::table.filter(debts::server_uuid.eq(&id)).count().get_result(conn)?;
        let owned: i64 = ownership::table.find(&id).filter(ownership::owner_host.is_not_null()).count().get_result(conn)?;
        let waiting: i64 =
            sagas::table.filter(sagas::server_uuid.eq(&id)).filter(sagas::state.ne_all(SagaState::OVER)).count().get_result(conn)?;
        let of_server = instance_mappings::table.filter(instance_mappings::instance_uuid.eq(Sql(server)));
        let here = instance_mappings::cell_uuid.eq(Sql(Some(cell))).and(instance_mappings::queued_for_delete.eq(true));
        let mapped: i64 = of_server.count().get_result(conn)?;
        let deleted_here: i64 = of_server.filter(here).count().get_result(conn)?;
        if held + owed + owned + waiting == 0 && mapped == deleted_here {
            forgettable.push(server);
        }
    }
    Ok(forgettable)
}

fn forget(conn: &mut Conn, server: Uuid) -> Result<(), DbError> {
    let id = server.to_string();
    let of_server = sagas::table.filter(sagas::server_uuid.eq(&id)).select(sagas::id);
    diesel::delete(journal::table.filter(journal::saga_id.eq_any(of_server.load::<String>(conn)?))).execute(conn)?;
    diesel::delete(sagas::table.filter(sagas::server_uuid.eq(&id))).execute(conn)?;
    diesel::delete(request_specs::table.find(Sql(server))).execute(conn)?;
    diesel::delete(build_requests::table.find(Sql(server))).execute(conn)?;
    diesel::delete(server_group_members::table.filter(server_group_members::instance_uuid.eq(Sql(server)))).execute(conn)?;
    diesel::delete(instance_mappings::table.filter(instance_mappings::instance_uuid.eq(Sql(server)))).execute(conn)?;
    diesel::delete(ownership::table.find(&id)).execute(conn)?;
    super::group_places::forget(conn, &id)?;
    fence::forget(conn, &[server])
}

fn ended_before(conn: &mut Conn, before: NaiveDateTime, limit: i64) -> Result<Vec<Uuid>, DbError> {
    let owes = exists(debts::table.filter(debts::saga_id.eq(sagas::id)));
    let holds = exists(operations::table.filter(operations::saga_id.eq(sagas::id)));
    let ended = later
        .filter(later.field(sagas::server_uuid).eq(sagas::server_uuid))
        .filter(later.field(sagas::kind).eq_any(ENDS_OF_MOVES))
        .filter(later.field(sagas::state).eq(SagaState::Done.as_str()))
        .filter(later.field(sagas::created_at).ge(sagas::created_at));
    let waits = sagas::kind.eq(MOVE).and(sagas::state.eq(SagaState::Done.as_str())).and(not(exists(ended)));
    let old = sagas::table
        .filter(sagas::state.eq_any(SagaState::OVER))
        .filter(sagas::updated_at.lt(before))
        .filter(not(owes))
        .filter(not(holds))
        .filter(not(waits))
        .order((sagas::created_at, sagas::id))
        .limit(limit)
        .select(sagas::id);
    old.load::<String>(conn)?.iter().map(|id| parse(id)).collect()
}

fn counters_alone(conn: &mut Conn, limit: i64) -> Result<Vec<Uuid>, DbError> {
    let unowned = ownership::table
        .filter(ownership::owner_host.is_null())
        .filter(not(exists(sagas::table.filter(sagas::server_uuid.eq(ownership::server_uuid)))))
        .order(ownership::server_uuid)
        .limit(limit)
        .select(ownership::server_uuid);
    let ids: Vec<Uuid> = unowned.load::<String>(conn)?.iter().map(|id| parse(id)).collect::<Result<_, _>>()?;
    let mut alone = Vec::new();
    for id in ids {
        let mapped: i64 = instance_mappings::table.filter(instance_mappings::instance_uuid.eq(Sql(id))).count().get_result(conn)?;
        if mapped == 0 {
            alone.push(id);
        }
    }
    Ok(alone)
}
