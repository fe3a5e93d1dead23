//! Debts: undos and clean-ups whose participant does not answer now. Operators see them; they are paid when the participant returns
//! (INVARIANTS S5).
//! The payer holds the server as an operation does, under the ended saga's lease. The hold is a lease: it expires if the payer dies, and a
//! payer that wakes late can neither settle the debt nor release the server.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{NaiveDateTime, TimeDelta};
use diesel::prelude::*;
use uuid::Uuid;

use super::leases::prolong;
use super::operations::{Operations, lease_lost, occupy, operations, sagas};
use super::ownership;
use crate::db::{Conn, DbError};
use crate::domain::debt::Debt;
use crate::domain::fence::Fence;
use crate::domain::saga_record::{LeftAlone, UnknownTable};
use crate::domain::saga_state::SagaState;
use crate::env::guard::{Guard, stands};
use crate::metrics::Metrics;

diesel::allow_tables_to_appear_in_same_query!(debts, sagas);
diesel::allow_columns_to_appear_in_same_group_by_clause!(debts::needs_operator, sagas::kind);
diesel::allow_columns_to_appear_in_same_group_by_clause!(debts::needs_operator, sagas::table_version);

diesel::table! {
    debts (saga_id, owed_seq) {
        saga_id -> Text,
        step -> Text,
        side -> Text,
        owed_seq -> BigInt,
        server_uuid -> Text,
        context -> Text,
        reason -> Text,
        tries -> BigInt,
        needs_operator -> Bool,
        created_at -> Timestamp,
        tried_at -> Nullable<Timestamp>,
        next_try_at -> Nullable<Timestamp>,
    }
}

/// The longest pause between two tries.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A debt to record: the step and side that are owed, and the context that they need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDebt {
    /// The number of the journal line that records the debt.
    pub owed_seq: i64,
    pub step: String,
    pub side: String,
    pub context: String,
    pub reason: String,
}

type Row = (String, String, String, i64, String, String, String, i64, bool, NaiveDateTime, Option<NaiveDateTime>, Option<NaiveDateTime>);

pub(super) fn insert(conn: &mut Conn, saga: Uuid, server: Uuid, debt: NewDebt, now: NaiveDateTime) -> Result<(), DbError> {
    diesel::insert_into(debts::table)
        .values((
            debts::saga_id.eq(saga.to_string()),
            debts::step.eq(debt.step),
            debts::side.eq(debt.side),
            debts::owed_seq.eq(debt.owed_seq),
            debts::server_uuid.eq(server.to_string()),
            debts::context.eq(debt.context),
            debts::reason.eq(debt.reason),
            debts::tries.eq(0_i64),
            debts::needs_operator.eq(false),
            debts::created_at.eq(now),
        ))
        .execute(conn)?;
    Ok(())
}

/// The debts to read, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    All,
    OfServer(Uuid),
    /// The debts that may be tried at this time.
    Due(NaiveDateTime),
}

/// The debts that a payer looks for, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DueDebts {
    /// The debts that may be tried now.
    pub debts: Vec<Debt>,
    /// The debts that wait for a release that knows their tables.
    pub left_alone: Vec<LeftAlone>,
}

/// Returns unpaid debts.
pub(super) fn read(conn: &mut Conn, which: Which) -> Result<Vec<Debt>, DbError> {
    let of_sagas = debts::table.inner_join(sagas::table.on(sagas::id.eq(debts::saga_id)));
    let mut query = of_sagas.select((debts::all_columns, sagas::kind, sagas::table_version)).into_boxed();
    query = query.order((debts::created_at, debts::saga_id, debts::owed_seq));
    match which {
        Which::All => {}
        Which::OfServer(server) => query = query.filter(debts::server_uuid.eq(server.to_string())),
        Which::Due(now) => {
            let far = now + TimeDelta::from_std(LONGEST_PAUSE).unwrap_or(TimeDelta::MAX);
            query = query.filter(debts::next_try_at.is_null().or(debts::next_try_at.le(now)).or(debts::next_try_at.gt(far)));
        }
    }
    query.load::<(Row, String, i32)>(conn)?.into_iter().map(debt).collect()
}

/// Shows in metrics how many debts there are, and how old the oldest is.
fn show(conn: &mut Conn, metrics: &Metrics, now: NaiveDateTime) -> Result<(), DbError> {
    let count = |conn: &mut Conn, state: bool| debts::table.filter(debts::needs_operator.eq(state)).count().get_result::<i64>(conn);
    let (waiting, needing_operator) = (count(conn, false)?, count(conn, true)?);
    let oldest: Option<NaiveDateTime> = debts::table.select(diesel::dsl::min(debts::created_at)).first(conn)?;
    let age = oldest.and_then(|oldest| (now - oldest).to_std().ok()).unwrap_or_default();
    let number = |count: i64| usize::try_from(count).unwrap_or_default();
    metrics.debts(number(waiting), number(needing_operator), age);
    Ok(())
}

/// True if the server owes a side of one of these steps.
pub(super) fn is_owed(conn: &mut Conn, server: &str, steps: &BTreeSet<&'static str>) -> Result<bool, DbError> {
    if steps.is_empty() {
        return Ok(false);
    }
    let count: i64 = debts::table
        .filter(debts::server_uuid.eq(server.to_owned()))
        .filter(debts::step.eq_any(steps.iter().copied()))
        .count()
        .get_result(conn)?;
    Ok(count > 0)
}

/// Ends the hold of a payer, because an operation goes first. The payer loses its lease, so it cannot settle the debt. Its late effects are
/// refused, because the operation has a higher fence.
pub(super) fn take_from_payer(conn: &mut Conn, server: &str) -> Result<(), DbError> {
    let held_for: Option<String> = operations::table.find(server.to_owned()).select(operations::saga_id).first(conn).optional()?;
    let Some(saga) = held_for else { return Ok(()) };
    // Locks the saga's row first, in the order of the payer's own commits.
    let ended = sagas::table.find(&saga).filter(sagas::state.eq_any(SagaState::OVER));
    let rows = diesel::update(ended).set(sagas::lease_epoch.eq(sagas::lease_epoch + 1)).execute(conn)?;
    if rows > 0 {
        diesel::delete(operations::table.filter(operations::saga_id.eq(saga))).execute(conn)?;
    }
    Ok(())
}

/// A server that a payer holds at rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaymentHold {
    /// The fence of the payment's effects.
    pub fence: Fence,
    /// The epoch of the hold's lease.
    pub lease_epoch: i64,
}

impl Operations {
    /// Returns unpaid debts of one server or of all, oldest first.
    pub async fn debts(&self, server: Option<Uuid>) -> Result<Vec<Debt>, DbError> {
        self.db().read(move |conn| read(conn, server.map_or(Which::All, Which::OfServer))).await
    }

    /// Returns the debts that may be tried now.
    pub async fn due_debts(&self) -> Result<DueDebts, DbError> {
        let (now, metrics) = (self.db().env().now().naive_utc(), self.db().env().metrics().clone());
        self.db()
            .read(move |conn| {
                show(conn, &metrics, now)?;
                read(conn, Which::Due(now))
            })
            .await
            .map(|due| self.separate(due))
    }

    /// Separates the debts whose tables this release knows from those that it leaves alone.
    fn separate(&self, due: Vec<Debt>) -> DueDebts {
        let (debts, others): (Vec<Debt>, Vec<Debt>) = due.into_iter().partition(|debt| self.knows_table_of(debt));
        let left_alone = |debt: Debt| LeftAlone {
            saga: debt.saga,
            server: debt.server,
            table: UnknownTable { kind: debt.kind, version: debt.table_version },
        };
        DueDebts { debts, left_alone: others.into_iter().map(left_alone).collect() }
    }

    fn knows_table_of(&self, debt: &Debt) -> bool {
        (self.knows_table)(&debt.kind, debt.table_version)
    }

    /// Makes every debt due, because a participant answers again.
    pub async fn hasten_debts(&self) -> Result<(), DbError> {
        let waiting = debts::table.filter(debts::next_try_at.is_not_null());
        self.db()
            .write(move |conn| Ok(diesel::update(waiting).set(debts::next_try_at.eq(None::<NaiveDateTime>)).execute(conn).map(drop)?))
            .await
    }

    /// Makes the debts of one saga due, because an operator asks. Returns their number.
    pub async fn hasten_debts_of(&self, saga: Uuid) -> Result<usize, DbError> {
        let owed = debts::table.filter(debts::saga_id.eq(saga.to_string()));
        self.db().write(move |conn| Ok(diesel::update(owed).set(debts::next_try_at.eq(None::<NaiveDateTime>)).execute(conn)?)).await
    }

    /// Holds a server at rest to pay a debt, under a new fence and a new lease of the saga that owes it. None if an operation holds the
    /// server, the debt is already paid, it is not due and the caller is not `eager`, or this release does not know its table.
    pub async fn hold(&self, debt: &Debt, owner: &str, eager: bool) -> Result<Option<PaymentHold>, DbError> {
        if !self.knows_table_of(debt) {
            return Ok(None);
        }
        let (now, until, owner) = (self.db().env().now().naive_utc(), self.lease_end(), owner.to_owned());
        let (saga, server, key) = (debt.saga.to_string(), debt.server, (debt.saga.to_string(), debt.owed_seq));
        let held = self
            .db()
            .write(move |conn| {
                let next: Option<Option<NaiveDateTime>> = debts::table.find(key).select(debts::next_try_at).first(conn).optional()?;
                if next.is_none() && stands(Guard::StandingDebt) {
                    return Ok(None);
                }
                if !eager && next.flatten().is_some_and(|next| rests(now, next)) {
                    return Ok(None);
                }
                occupy(conn, &server.to_string(), &saga, now)?;
                diesel::update(sagas::table.find(&saga))
                    .set((sagas::lease_owner.eq(owner), sagas::lease_epoch.eq(sagas::lease_epoch + 1), sagas::lease_until.eq(until)))
                    .execute(conn)?;
                let lease_epoch = sagas::table.find(&saga).select(sagas::lease_epoch).first(conn)?;
                Ok(Some(PaymentHold { fence: ownership::take_attempt(conn, server)?, lease_epoch }))
            })
            .await;
        match held {
            Err(DbError::Conflict(_)) => Ok(None),
            other => other,
        }
    }

    /// Ends a [`Operations::hold`]. Conflict if another payer has the hold now.
    pub async fn release(&self, saga: Uuid, lease_epoch: i64) -> Result<(), DbError> {
        self.holding(saga, lease_epoch, move |conn| {
            diesel::delete(operations::table.filter(operations::saga_id.eq(saga.to_string()))).execute(conn)?;
            Ok(())
        })
        .await
    }

    /// Settles a paid debt. Conflict if another payer has the hold now.
    pub async fn settle_debt(&self, saga: Uuid, owed_seq: i64, lease_epoch: i64) -> Result<(), DbError> {
        self.holding(saga, lease_epoch, move |conn| {
            diesel::delete(debts::table.find((saga.to_string(), owed_seq))).execute(conn)?;
            Ok(())
        })
        .await?;
        self.db().env().metrics().debt_tried(true);
        Ok(())
    }

    /// Records that a try to pay failed just now, and that the next one follows after a pause. Conflict if another payer has the hold now.
    pub async fn debt_failed(
        &self,
        saga: Uuid,
        owed_seq: i64,
        lease_epoch: i64,
        reason: String,
        needs_operator: bool,
        pause: Duration,
    ) -> Result<(), DbError> {
        let now = self.db().env().now().naive_utc();
        self.db().env().metrics().debt_tried(false);
        let next = now + TimeDelta::from_std(pause.min(LONGEST_PAUSE)).unwrap_or(TimeDelta::MAX);
        self.holding(saga, lease_epoch, move |conn| {
            diesel::update(debts::table.find((saga.to_string(), owed_seq)))
                .set((
                    debts::reason.eq(reason),
                    debts::tries.eq(debts::tries + 1),
                    debts::needs_operator.eq(needs_operator),
                    debts::tried_at.eq(now),
                    debts::next_try_at.eq(next),
                ))
                .execute(conn)?;
            Ok(())
        })
        .await
    }

    /// Runs `work` in one commit with a check that the hold still stands, and renews the hold.
    async fn holding<F>(&self, saga: Uuid, lease_epoch: i64, work: F) -> Result<(), DbError>
    where
        F: FnOnce(&mut Conn) -> Result<(), DbError> + Send + 'static,
    {
        let until = self.lease_end();
        self.db()
            .write(move |conn| {
                if !prolong(conn, saga, lease_epoch, until)? && stands(Guard::HoldLease) {
                    return Err(lease_lost(saga));
                }
                work(conn)
            })
            .await
    }
}

/// True until the time of the next try. A time beyond any pause comes from a clock that ran ahead, and delays nobody.
fn rests(now: NaiveDateTime, next: NaiveDateTime) -> bool {
    (next - now).to_std().is_ok_and(|left| !left.is_zero() && left <= LONGEST_PAUSE)
}

fn debt((row, kind, table_version): (Row, String, i32)) -> Result<Debt, DbError> {
    let (saga, step, side, owed_seq, server, context, reason, tries, needs_operator, created_at, _, _) = row;
    let parse = |id: &str| Uuid::parse_str(id).map_err(|_| DbError::unreadable("an id column of debts", id));
    Ok(Debt {
        saga: parse(&saga)?,
        owed_seq,
        server: parse(&server)?,
        kind,
        table_version,
        step,
        side,
        context,
        reason,
        tries,
        needs_operator,
        created_at: created_at.and_utc(),
    })
}
