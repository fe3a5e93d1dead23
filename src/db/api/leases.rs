//! Leases: which conductor may go on with an operation, and until when. If a lease is not renewed, it expires, and any conductor may take
//! the operation over with a higher epoch. From that commit on the old owner's writes are refused, however late it wakes up. A clock that
//! jumps, or a late renewal, therefore costs work but does no harm.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use chrono::TimeDelta;
use diesel::prelude::*;
use uuid::Uuid;

use super::journal::journals_of;
use super::operations::{AT_ONCE, Operations, SagaRow, lease_lost, operations, parse, record, sagas, texts};
use crate::db::clock::ClockTime;
use crate::db::{Conn, DbError};
use crate::domain::saga_record::{JournalEntry, LeftAlone, SagaRecord, UnknownTable};
use crate::domain::saga_state::SagaState;
use crate::env::guard::{Guard, stands};

/// The default length of a lease.
pub const LEASE: Duration = Duration::from_secs(3);
/// The number of renewals within a lease's length.
const RENEWALS_PER_LEASE: u32 = 3;
/// The number of times that a conductor looks for expired leases within a lease's length.
const LOOKS_PER_LEASE: u32 = 6;
/// Longer than every lease.
const NO_TERM: TimeDelta = TimeDelta::weeks(52_000);
/// The number of sagas that one commit takes over.
pub const TAKEN_AT_ONCE: usize = AT_ONCE;

/// The result of an attempt to take a saga over.
#[derive(Clone, PartialEq, Debug)]
pub enum TakeOver {
    /// The caller has the saga now: its record and its journal.
    Taken(Box<SagaRecord>, Vec<JournalEntry>),
    /// Another conductor's lease still runs for this time.
    Held(Duration),
    /// The saga has ended.
    Over,
}

/// Sagas in flight that a conductor looks for, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InFlight {
    pub sagas: Vec<Uuid>,
    /// The sagas among them that wait for a release that knows their tables.
    pub left_alone: Vec<LeftAlone>,
}

/// A saga with the result of the attempt to take it over.
pub type Attempt = (Uuid, Result<TakeOver, DbError>);

impl Operations {
    /// Sets the length of leases.
    pub fn leased_for(mut self, lease: Duration) -> Operations {
        self.lease = lease;
        self
    }

    /// Sets which versions of which kinds' tables this release knows. Sagas of others are left alone.
    pub fn knowing(mut self, knows_table: fn(&str, i32) -> bool) -> Operations {
        self.knows_table = knows_table;
        self
    }

    /// Returns the time between two renewals of a lease.
    pub fn renewal_interval(&self) -> Duration {
        self.lease / RENEWALS_PER_LEASE
    }

    /// Returns the time between two rounds for expired leases.
    pub fn round_interval(&self) -> Duration {
        self.lease / LOOKS_PER_LEASE
    }

    /// Returns the end of a lease that begins now, by the database's clock: all conductors compare that one.
    pub(super) fn lease_end(&self) -> ClockTime {
        ClockTime::after(self.db().env(), span(self.lease))
    }

    /// Renews the lease. Conflict if it has passed to another owner.
    pub async fn renew(&self, saga: Uuid, lease_epoch: i64) -> Result<(), DbError> {
        let until = self.lease_end();
        self.db().write(move |conn| if prolong(conn, saga, lease_epoch, until)? { Ok(()) } else { Err(lease_lost(saga)) }).await
    }

    /// Renews this owner's leases on these sagas and returns the number renewed. Skips leases that the journal has just renewed, and leases
    /// that have passed to another owner: the old owner learns that from the journal.
    pub async fn renew_all(&self, owner: &str, renewed: Vec<Uuid>) -> Result<usize, DbError> {
        let (owner, until) = (owner.to_owned(), self.lease_end());
        let fresh = ClockTime::after(self.db().env(), span(self.lease.saturating_sub(self.renewal_interval())));
        let ids = texts(&renewed);
        self.db()
            .write(move |conn| {
                let mut changed = 0;
                for part in ids.chunks(AT_ONCE) {
                    let due =
                        sagas::table.filter(sagas::id.eq_any(part).and(sagas::lease_owner.eq(&owner)).and(sagas::lease_until.lt(fresh)));
                    changed += diesel::update(due).set(sagas::lease_until.eq(until)).execute(conn)?;
                }
                Ok(changed)
            })
            .await
    }

    /// Does work while it renews the lease. Work and renewal share a task, so that renewals stop when the work blocks.
    pub async fn kept<T>(&self, saga: Uuid, lease_epoch: i64, work: impl Future<Output = T>) -> T {
        let renewing = async {
            loop {
                tokio::time::sleep(self.renewal_interval()).await;
                if let Err(why) = self.renew(saga, lease_epoch).await {
                    log::warn!(migration:% = saga; "a lease could not be renewed: {why}");
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            never = renewing => {
                let never: Infallible = never;
                match never {}
            }
        }
    }

    /// Returns the sagas in flight whose leases this owner holds, and all parked ones.
    pub async fn in_flight_of(&self, owner: &str) -> Result<InFlight, DbError> {
        let (owner, knows_table) = (owner.to_owned(), self.knows_table);
        let own_and_parked = move |conn: &mut Conn| {
            let own = held().filter(sagas::lease_owner.eq(owner).or(sagas::state.eq(SagaState::NeedsOperator.as_str())));
            in_flight(own.select(held_columns()).load(conn)?, knows_table)
        };
        self.db().read(own_and_parked).await
    }

    /// Leaves a saga that this release cannot read to an operator: nobody goes on with it before the next start of a conductor.
    /// Its server stays held. Conflict when it has passed to another owner.
    pub async fn park(&self, saga: Uuid, lease_epoch: i64, reason: String) -> Result<(), DbError> {
        let (now, expired) = (self.db().env().now().naive_utc(), ClockTime::now(self.db().env()));
        self.db()
            .write(move |conn| {
                let parked = diesel::update(sagas::table.find(saga.to_string()).filter(sagas::lease_epoch.eq(lease_epoch)))
                    .set((
                        sagas::state.eq(SagaState::NeedsOperator.as_str()),
                        sagas::error.eq(reason),
                        sagas::lease_until.eq(expired),
                        sagas::updated_at.eq(now),
                    ))
                    .execute(conn)?;
                if parked > 0 { Ok(()) } else { Err(lease_lost(saga)) }
            })
            .await
    }

    /// True while the owner has an operation of this kind in flight that is at this step, and that this release can go on with.
    pub async fn is_at_step(&self, owner: &str, kind: &str, step: &str) -> Result<bool, DbError> {
        let (owner, kind, step, knows_table) = (owner.to_owned(), kind.to_owned(), step.to_owned(), self.knows_table);
        self.db()
            .read(move |conn| {
                let here = held().filter(sagas::lease_owner.eq(owner)).filter(sagas::kind.eq(kind)).filter(sagas::step.eq(step));
                Ok(!in_flight(here.select(held_columns()).load(conn)?, knows_table)?.sagas.is_empty())
            })
            .await
    }

    /// Returns the owner's sagas in flight that shall turn back, oldest first.
    pub async fn cancelled(&self, owner: &str) -> Result<Vec<Uuid>, DbError> {
        let owner = owner.to_owned();
        let cancelled = move |conn: &mut Conn| -> Result<Vec<String>, DbError> {
            Ok(held().filter(sagas::lease_owner.eq(owner)).filter(sagas::cancellation.is_not_null()).load(conn)?)
        };
        self.db().read(move |conn| ids(cancelled(conn)?)).await
    }

    /// Returns the sagas in flight whose lease has expired; no parked one.
    pub async fn abandoned(&self) -> Result<InFlight, DbError> {
        let (now, knows_table) = (ClockTime::now(self.db().env()), self.knows_table);
        let parked = SagaState::NeedsOperator.as_str();
        let expired = move |conn: &mut Conn| {
            let expired = held().filter(sagas::lease_until.le(now)).filter(sagas::state.ne(parked));
            in_flight(expired.select(held_columns()).load(conn)?, knows_table)
        };
        self.db().read(expired).await
    }

    /// Takes over one saga: see [`take_over_all`](Self::take_over_all).
    pub async fn take_over(&self, saga: Uuid, owner: &str) -> Result<TakeOver, DbError> {
        let mut attempts = self.take_over_all(vec![saga], owner).await?;
        attempts.pop().map_or(Ok(TakeOver::Over), |(_, attempt)| attempt)
    }

    /// Takes over those of these sagas in flight that belong to an earlier incarnation of the same owner, or to an owner whose lease has
    /// expired: all in one commit, so name no more than [`TAKEN_AT_ONCE`]. The leases' epochs rise, so the old owners' writes are refused.
    /// Answers for each saga; a record that cannot be read is an error of its saga alone.
    pub async fn take_over_all(&self, sagas: Vec<Uuid>, owner: &str) -> Result<Vec<Attempt>, DbError> {
        let mut runs_out_within = NO_TERM;
        if stands(Guard::LeaseTerm) {
            runs_out_within = TimeDelta::zero();
        }
        let (owner, runs_out, until) = (owner.to_owned(), ClockTime::after(self.db().env(), runs_out_within), self.lease_end());
        self.db().write(move |conn| take_over_in(conn, &sagas, &owner, runs_out, until)).await
    }
}

fn span(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

/// Selects the ids of sagas in flight, joined with their leases.
#[diesel::dsl::auto_type(no_type_alias)]
fn held() -> _ {
    operations::table
        .inner_join(sagas::table.on(sagas::id.eq(operations::saga_id)))
        .order(operations::started_at)
        .select(operations::saga_id)
}

type HeldColumns = (sagas::id, sagas::server_uuid, sagas::kind, sagas::table_version);

fn held_columns() -> HeldColumns {
    (sagas::id, sagas::server_uuid, sagas::kind, sagas::table_version)
}

/// Separates the sagas whose tables this release knows from those that it leaves alone.
fn in_flight(rows: Vec<(String, String, String, i32)>, knows_table: fn(&str, i32) -> bool) -> Result<InFlight, DbError> {
    let mut in_flight = InFlight::default();
    for (saga, server, kind, version) in rows {
        let saga = parse(&saga)?;
        match knows_table(&kind, version) {
            true => in_flight.sagas.push(saga),
            false => in_flight.left_alone.push(LeftAlone { saga, server: parse(&server)?, table: UnknownTable { kind, version } }),
        }
    }
    Ok(in_flight)
}

fn ids(texts: Vec<String>) -> Result<Vec<Uuid>, DbError> {
    texts.iter().map(|id| parse(id)).collect()
}

/// Takes the sagas whose lease belongs to this owner or ends by `runs_out`.
fn take_over_in(conn: &mut Conn, sagas: &[Uuid], owner: &str, runs_out: ClockTime, until: ClockTime) -> Result<Vec<Attempt>, DbError> {
    let ids = texts(sagas);
    let live: Vec<String> = operations::table.filter(operations::saga_id.eq_any(&ids)).select(operations::saga_id).load(conn)?;
    let free = sagas::id.eq_any(&live).and(sagas::lease_owner.eq(owner).or(sagas::lease_until.le(runs_out)));
    diesel::update(sagas::table.filter(free))
        .set((sagas::lease_owner.eq(owner), sagas::lease_epoch.eq(sagas::lease_epoch + 1), sagas::lease_until.eq(until)))
        .execute(conn)?;
    // Read after the update, because on PostgreSQL another conductor may have ended a saga, or taken it, while the update waited for its row.
    let in_flight = operations::table.inner_join(sagas::table.on(sagas::id.eq(operations::saga_id))).filter(sagas::id.eq_any(&live));
    let rows: Vec<SagaRow> = in_flight.select(sagas::all_columns).load(conn)?;
    let (own, held): (Vec<SagaRow>, Vec<SagaRow>) = rows.into_iter().partition(|row| row.lease_owner == owner);
    let mut journals = journals_of(conn, own.iter().map(|row| row.id.as_str()))?;
    let mut answers = BTreeMap::new();
    for row in own {
        let saga = parse(&row.id)?;
        let entries = journals.remove(&saga).unwrap_or_default();
        answers.insert(saga, record(row).map(|record| TakeOver::Taken(Box::new(record), entries)));
    }
    if !held.is_empty() {
        let now = runs_out.read(conn)?;
        for row in held {
            answers.insert(parse(&row.id)?, Ok(TakeOver::Held((row.lease_until - now).to_std().unwrap_or_default())));
        }
    }
    Ok(sagas.iter().map(|saga| (*saga, answers.remove(saga).unwrap_or(Ok(TakeOver::Over)))).collect())
}

/// Makes the lease last until `until`. False if it has passed to another owner.
pub(super) fn prolong(conn: &mut Conn, saga: Uuid, lease_epoch: i64, until: ClockTime) -> Result<bool, DbError> {
    let held = diesel::update(sagas::table.find(saga.to_string()).filter(sagas::lease_epoch.eq(lease_epoch)))
        .set(sagas::lease_until.eq(until))
        .execute(conn)?;
    Ok(held > 0)
}

#[cfg(test)]
mod tests;
