//! Operations in flight and the saga journal. A unique key allows one operation per server. Journal entries are appended under a lease
//! whose epoch fences an old owner's writes (INVARIANTS S1 and S6).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::NaiveDateTime;
use diesel::Connection;
use diesel::prelude::*;
use uuid::Uuid;

pub use super::append::{Append, Appended};
use super::cancellations;
use super::debts::debts;
use super::journal::{EntryRow, by_saga, entries_of, entry, insert_entries, journal};
use super::leases::LEASE;
use super::ownership;
use crate::db::clock::ClockTime;
use crate::db::{Conn, Db, DbError};
use crate::domain::cancellation::Cancellation;
use crate::domain::debt::Debt;
use crate::domain::fence::Fence;
use crate::domain::reason;
use crate::domain::saga_record::{JournalEntry, Lease, SagaFilter, SagaRecord, mark_of_request};
use crate::domain::saga_state::SagaState;
use crate::env::guard::{Guard, stands};

diesel::table! {
    use diesel::sql_types::*;
    use crate::db::columns::Json;

    sagas (id) {
        id -> Text,
        server_uuid -> Text,
        kind -> Text,
        state -> Text,
        step -> Text,
        context -> Text,
        error -> Nullable<Text>,
        lease_owner -> Text,
        lease_epoch -> BigInt,
        created_at -> Timestamp,
        updated_at -> Timestamp,
        lease_until -> Timestamp,
        cancellation -> Nullable<Json>,
        table_version -> Integer,
    }
}

diesel::table! {
    operations (server_uuid) {
        server_uuid -> Text,
        saga_id -> Text,
        started_at -> Timestamp,
    }
}

diesel::allow_tables_to_appear_in_same_query!(sagas, operations);

/// A saga's row.
#[derive(Clone, PartialEq, Debug, Queryable)]
pub(super) struct SagaRow {
    pub(super) id: String,
    server_uuid: String,
    kind: String,
    state: String,
    step: String,
    context: String,
    error: Option<String>,
    pub(super) lease_owner: String,
    pub(super) lease_epoch: i64,
    created_at: NaiveDateTime,
    updated_at: NaiveDateTime,
    pub(super) lease_until: NaiveDateTime,
    cancellation: Option<Cancellation>,
    table_version: i32,
}

/// A saga to begin.
#[derive(Clone, Debug)]
pub struct NewSaga {
    pub id: Uuid,
    pub server: Uuid,
    pub kind: String,
    /// The version of its table.
    pub table_version: i32,
    /// Its first.
    pub step: String,
    /// The context as JSON.
    pub context: String,
    /// The owner of the lease.
    pub owner: String,
    /// Steps whose debts the server must have paid before this operation starts: the operation trusts the fields they write.
    pub waits_for: BTreeSet<&'static str>,
}

impl NewSaga {
    /// Makes a saga that waits for no other.
    pub fn new(id: Uuid, server: Uuid, (kind, table_version): (&str, i32), step: &str, context: String, owner: &str) -> NewSaga {
        let (kind, step, owner) = (kind.to_owned(), step.to_owned(), owner.to_owned());
        NewSaga { id, server, kind, table_version, step, context, owner, waits_for: BTreeSet::new() }
    }
}

/// A snapshot of a running saga.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchedSaga {
    pub record: SagaRecord,
    /// The journal entries since the last read.
    pub added: Vec<JournalEntry>,
    /// The ownership row of the saga's server.
    pub ownership: Option<ownership::Ownership>,
}

/// All records about operations.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OperationRecords {
    /// The saga that holds each server, by server.
    pub holders: BTreeMap<Uuid, Uuid>,
    /// Oldest first.
    pub sagas: Vec<SagaRecord>,
    /// The journal of each saga, in order.
    pub journals: BTreeMap<Uuid, Vec<JournalEntry>>,
    pub debts: Vec<Debt>,
    pub ownership: Vec<ownership::Ownership>,
}

/// Stores operations and their journal.
#[derive(Clone)]
pub struct Operations {
    db: Db,
    pub(super) lease: Duration,
    /// True for a kind and a version of its tables that this release knows.
    pub(super) knows_table: fn(&str, i32) -> bool,
}

impl Operations {
    pub fn new(db: Db) -> Operations {
        Operations { db, lease: LEASE, knows_table: |_, _| true }
    }

    /// Returns the API database's connection pool.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Takes the server for a new saga and writes the journal's first entry ("`step` begun"). Conflict if another operation holds the
    /// server, if the server owes a step in `waits_for`, or if the server is to be deleted.
    pub async fn begin(&self, new: NewSaga) -> Result<Fence, DbError> {
        let (now, until) = (self.db.env().now().naive_utc(), self.lease_end());
        self.db.write(move |conn| begin_in(conn, new, now, until)).await
    }

    /// Ends a saga whose first step refused the request. Only the saga's record stays, with the given context.
    pub async fn abandon(&self, saga: Uuid, why: &str, context: String) -> Result<(), DbError> {
        let (now, why) = (self.db.env().now(), why.to_owned());
        self.db
            .write(move |conn| {
                let id = saga.to_string();
                let changed = diesel::update(sagas::table.find(&id).filter(sagas::lease_epoch.eq(1)))
                    .set((
                        sagas::state.eq(SagaState::Unwound.as_str()),
                        sagas::error.eq(&why),
                        sagas::context.eq(context),
                        sagas::updated_at.eq(now.naive_utc()),
                    ))
                    .execute(conn)?;
                if changed == 0 {
                    return Err(lease_lost(saga));
                }
                let first = entries_of(conn, saga)?.pop().ok_or_else(|| DbError::NotFound(format!("journal of saga {saga}")))?;
                let refused = JournalEntry { seq: first.seq + 1, event: "failed".into(), error: Some(why), at: now, ..first };
                insert_entries(conn, &id, &[refused])?;
                diesel::delete(operations::table.filter(operations::saga_id.eq(&id))).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Runs `work` in one commit with a check that the lease still holds.
    pub async fn under_lease<T, F>(&self, saga: Uuid, lease_epoch: i64, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static,
    {
        self.db
            .write(move |conn| {
                // An update, not a read: on PostgreSQL it also waits for a take-over that is about to commit.
                let held = diesel::update(sagas::table.find(saga.to_string()).filter(sagas::lease_epoch.eq(lease_epoch)))
                    .set(sagas::lease_epoch.eq(lease_epoch))
                    .execute(conn)?;
                if stands(Guard::OwnershipLease) && held == 0 {
                    return Err(lease_lost(saga));
                }
                work(conn)
            })
            .await
    }

    /// Returns a saga's record.
    pub async fn saga(&self, saga: Uuid) -> Result<Option<SagaRecord>, DbError> {
        self.db.read(move |conn| sagas::table.find(saga.to_string()).first::<SagaRow>(conn).optional()?.map(record).transpose()).await
    }

    /// Returns these sagas, without those that are gone.
    pub async fn sagas(&self, sagas: Vec<Uuid>) -> Result<Vec<SagaRecord>, DbError> {
        self.db
            .read(move |conn| {
                let mut rows = Vec::new();
                for ids in texts(&sagas).chunks(AT_ONCE) {
                    rows.extend(sagas::table.filter(sagas::id.eq_any(ids)).load::<SagaRow>(conn)?);
                }
                rows.into_iter().map(record).collect()
            })
            .await
    }

    /// Returns the context of each server's newest saga.
    pub async fn newest_contexts(&self, servers: Vec<Uuid>) -> Result<BTreeMap<Uuid, String>, DbError> {
        self.db
            .read(move |conn| {
                let mut newest = BTreeMap::new();
                for ids in texts(&servers).chunks(AT_ONCE) {
                    let of_servers = || sagas::table.filter(sagas::server_uuid.eq_any(ids));
                    let moments = of_servers().group_by(sagas::server_uuid).select(diesel::dsl::max(sagas::created_at));
                    let moments: Vec<NaiveDateTime> = moments.load::<Option<NaiveDateTime>>(conn)?.into_iter().flatten().collect();
                    let rows = of_servers().filter(sagas::created_at.eq_any(moments)).order((sagas::created_at, sagas::id));
                    let rows: Vec<(String, String)> = rows.select((sagas::server_uuid, sagas::context)).load(conn)?;
                    // The last one of a server is its newest.
                    newest.extend(rows.into_iter().filter_map(|(server, context)| Some((server.parse().ok()?, context))));
                }
                Ok(newest)
            })
            .await
    }

    /// Returns a page of sagas. NotFound if the marker is unknown.
    pub async fn list(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>, DbError> {
        self.db
            .read(move |conn| {
                let mut query = sagas::table.into_boxed().order((sagas::created_at.desc(), sagas::id.desc())).limit(filter.limit);
                if let Some(server) = filter.server {
                    query = query.filter(sagas::server_uuid.eq(server.to_string()));
                }
                if let Some(state) = filter.state {
                    query = query.filter(sagas::state.eq(state.as_str()));
                }
                if !filter.kinds.is_empty() {
                    query = query.filter(sagas::kind.eq_any(filter.kinds));
                }
                if filter.owing {
                    query = query.filter(sagas::id.eq_any(debts::table.select(debts::saga_id)));
                }
                if let Some(request) = filter.request {
                    query = query.filter(sagas::context.like(format!("%{}%", mark_of_request(&request))));
                }
                if let Some(marker) = filter.marker {
                    let at: NaiveDateTime = sagas::table
                        .find(marker.to_string())
                        .select(sagas::created_at)
                        .first(conn)
                        .optional()?
                        .ok_or_else(|| DbError::NotFound(format!("migration {marker}")))?;
                    query = query.filter(sagas::created_at.lt(at).or(sagas::created_at.eq(at).and(sagas::id.lt(marker.to_string()))));
                }
                query.load::<SagaRow>(conn)?.into_iter().map(record).collect()
            })
            .await
    }

    /// Returns a saga for a watcher that knows the first `count` journal entries. None if there is no such saga.
    pub async fn watched(&self, saga: Uuid, count: usize) -> Result<Option<WatchedSaga>, DbError> {
        let since = i64::try_from(count).unwrap_or(i64::MAX);
        self.db
            .read(move |conn| {
                let id = saga.to_string();
                let Some(row) = sagas::table.find(&id).first::<SagaRow>(conn).optional()? else { return Ok(None) };
                let added = journal::table.filter(journal::saga_id.eq(&id)).filter(journal::seq.ge(since)).order(journal::seq);
                let added = added.load(conn)?.into_iter().map(entry).collect();
                let record = record(row)?;
                let ownership = ownership::find(conn, record.server)?;
                Ok(Some(WatchedSaga { record, added, ownership }))
            })
            .await
    }

    /// Reads all records about operations in one transaction, for the audit.
    pub async fn audit_records(&self) -> Result<OperationRecords, DbError> {
        self.db
            .read(|conn| {
                conn.transaction(|conn| {
                    let held: Vec<(String, String)> =
                        operations::table.select((operations::server_uuid, operations::saga_id)).load(conn)?;
                    let sagas: Vec<SagaRow> = sagas::table.order((sagas::created_at, sagas::id)).load(conn)?;
                    let rows: Vec<EntryRow> = journal::table.order((journal::saga_id, journal::seq)).load(conn)?;
                    let journals = by_saga(rows)?;
                    Ok(OperationRecords {
                        holders: held.iter().map(|(server, saga)| Ok((parse(server)?, parse(saga)?))).collect::<Result<_, DbError>>()?,
                        sagas: sagas.into_iter().map(record).collect::<Result<_, _>>()?,
                        journals,
                        debts: super::debts::read(conn, super::debts::Which::All)?,
                        ownership: ownership::all(conn)?,
                    })
                })
            })
            .await
    }

    /// Returns the saga that holds a server.
    pub async fn holder(&self, server: Uuid) -> Result<Option<Uuid>, DbError> {
        self.db
            .read(move |conn| {
                let id: Option<String> = operations::table.find(server.to_string()).select(operations::saga_id).first(conn).optional()?;
                id.map(|id| parse(&id)).transpose()
            })
            .await
    }

    /// Returns each held server with the saga that holds it, for the audit.
    pub async fn held_servers(&self) -> Result<Vec<(Uuid, Uuid)>, DbError> {
        self.db
            .read(|conn| {
                let rows: Vec<(String, String)> =
                    operations::table.select((operations::server_uuid, operations::saga_id)).order(operations::server_uuid).load(conn)?;
                rows.into_iter().map(|(server, saga)| Ok((parse(&server)?, parse(&saga)?))).collect()
            })
            .await
    }

    /// Returns the server's ownership row.
    pub async fn ownership(&self, server: Uuid) -> Result<Option<ownership::Ownership>, DbError> {
        self.db.read(move |conn| ownership::find(conn, server)).await
    }

    /// Returns all ownership rows, for the audit.
    pub async fn all_ownership(&self) -> Result<Vec<ownership::Ownership>, DbError> {
        self.db.read(ownership::all).await
    }

    /// Returns the fence under which a host may run a server's guest now. None if the host is not the owner, or while an operation is in
    /// flight (INVARIANTS S4).
    pub async fn may_run(&self, server: Uuid, cell: String, host: String) -> Result<Option<(i64, i64)>, DbError> {
        self.db.check_seat()?;
        self.db
            .read(move |conn| {
                let held: i64 = operations::table.filter(operations::server_uuid.eq(server.to_string())).count().get_result(conn)?;
                let row = ownership::find(conn, server)?;
                let is_busy = stands(Guard::OwnerAtRest) && held > 0;
                let is_anothers = |row: &ownership::Ownership| stands(Guard::OwnerCheck) && row.owner != Some((cell, host));
                Ok(row.filter(|row| !is_busy && !is_anothers(row)).map(|row| (row.epoch, row.attempt)))
            })
            .await
    }

    /// Returns the saga of a server that goes forward or back now. None if no operation has the server, or only the debt of one that has ended
    /// is being paid.
    pub async fn in_flight(&self, server: Uuid) -> Result<Option<SagaRecord>, DbError> {
        self.db.check_seat()?;
        let holder = operations::table.filter(operations::server_uuid.eq(server.to_string())).select(operations::saga_id);
        let going = [SagaState::Running.as_str(), SagaState::Unwinding.as_str()];
        let in_flight = sagas::table.filter(sagas::id.eq_any(holder)).filter(sagas::state.eq_any(going));
        self.db.read(move |conn| in_flight.first::<SagaRow>(conn).optional()?.map(record).transpose()).await
    }

    /// True if no attempt later than this fence has begun for its server, and the server is known.
    pub async fn is_latest(&self, fence: Fence) -> Result<bool, DbError> {
        let row = self.ownership(fence.server).await?;
        Ok(row.is_some_and(|row| (row.epoch, row.attempt) <= fence.pair()))
    }
}

/// Implements [`Operations::begin`] within the caller's transaction.
pub(super) fn begin_in(conn: &mut Conn, new: NewSaga, now: NaiveDateTime, until: ClockTime) -> Result<Fence, DbError> {
    let NewSaga { id, server, kind, table_version, step, context, owner, waits_for } = new;
    let (saga_id, server_uuid) = (id.to_string(), server.to_string());
    if stands(Guard::OwedFirst) && super::debts::is_owed(conn, &server_uuid, &waits_for)? {
        return Err(DbError::Conflict(reason!("instance {server} owes what this operation waits for")));
    }
    if kind != cancellations::DELETE && cancellations::waiting_delete(conn, server)?.is_some() {
        return Err(DbError::Conflict(reason!("instance {server} is to be deleted")));
    }
    super::debts::take_from_payer(conn, &server_uuid)?;
    occupy(conn, &server_uuid, &saga_id, now)?;
    let fence = ownership::take_attempt(conn, server)?;
    diesel::insert_into(sagas::table)
        .values((
            sagas::id.eq(&saga_id),
            sagas::server_uuid.eq(&server_uuid),
            sagas::kind.eq(kind),
            sagas::table_version.eq(table_version),
            sagas::state.eq(SagaState::Running.as_str()),
            sagas::step.eq(&step),
            sagas::context.eq(context),
            (sagas::lease_owner.eq(owner), sagas::lease_epoch.eq(1), sagas::lease_until.eq(until)),
            (sagas::created_at.eq(now), sagas::updated_at.eq(now)),
        ))
        .execute(conn)?;
    let first =
        JournalEntry { seq: 0, step, side: "act".into(), attempt: fence.attempt, event: "begun".into(), error: None, at: now.and_utc() };
    insert_entries(conn, &saga_id, &[first])?;
    Ok(fence)
}

/// Gives the server to an operation. Conflict if another operation has it: the server is the table's key.
pub(super) fn occupy(conn: &mut Conn, server: &str, saga: &str, now: NaiveDateTime) -> Result<(), DbError> {
    diesel::insert_into(operations::table)
        .values((operations::server_uuid.eq(server), operations::saga_id.eq(saga), operations::started_at.eq(now)))
        .execute(conn)?;
    Ok(())
}

/// The ids that one statement has.
pub(super) const AT_ONCE: usize = 500;

pub(super) fn texts(ids: &[Uuid]) -> Vec<String> {
    ids.iter().map(Uuid::to_string).collect()
}

pub(super) fn record(row: SagaRow) -> Result<SagaRecord, DbError> {
    Ok(SagaRecord {
        id: parse(&row.id)?,
        server: parse(&row.server_uuid)?,
        kind: row.kind,
        table_version: row.table_version,
        state: SagaState::parse(&row.state).unwrap_or(SagaState::NeedsOperator),
        step: row.step,
        context: row.context,
        error: row.error,
        cancellation: row.cancellation,
        lease: Lease { owner: row.lease_owner, epoch: row.lease_epoch },
        created_at: row.created_at.and_utc(),
        updated_at: row.updated_at.and_utc(),
    })
}

pub(super) fn parse(id: &str) -> Result<Uuid, DbError> {
    Uuid::parse_str(id).map_err(|_| DbError::unreadable("an id column", id))
}

pub(super) fn lease_lost(saga: Uuid) -> DbError {
    DbError::Conflict(reason!("the lease of saga {saga} has passed to another owner"))
}
