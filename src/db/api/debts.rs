//! Debts: undos and clean-ups that need a participant which does not answer now. They are visible to operators and paid
//! when it returns (architecture §5, rule 5).

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::operations::Operations;
use crate::db::{Conn, DbError};

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
    }
}

/// A debt to record: which side of which step is owed, with the context it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDebt {
    /// The journal entry that says so.
    pub owed_seq: i64,
    pub step: String,
    pub side: String,
    pub context: String,
    pub reason: String,
}

/// A debt that stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Debt {
    pub saga: Uuid,
    pub owed_seq: i64,
    pub server: Uuid,
    pub step: String,
    pub side: String,
    pub context: String,
    pub reason: String,
    pub tries: i64,
    /// Paying it fails for good: an operator must look.
    pub needs_operator: bool,
    pub created_at: DateTime<Utc>,
}

type Row = (String, String, String, i64, String, String, String, i64, bool, NaiveDateTime);

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

/// Debts that stand, oldest first; of one server or of all.
pub(super) fn all(conn: &mut Conn, server: Option<Uuid>) -> Result<Vec<Debt>, DbError> {
    let mut query = debts::table.into_boxed().order((debts::created_at, debts::saga_id, debts::owed_seq));
    if let Some(server) = server {
        query = query.filter(debts::server_uuid.eq(server.to_string()));
    }
    query.load::<Row>(conn)?.into_iter().map(debt).collect()
}

impl Operations {
    /// Debts that stand, oldest first; of one server or of all.
    pub async fn debts(&self, server: Option<Uuid>) -> Result<Vec<Debt>, DbError> {
        self.db().read(move |conn| all(conn, server)).await
    }

    /// Strikes a debt out: paid, or overtaken by a later operation.
    pub async fn settle_debt(&self, saga: Uuid, owed_seq: i64) -> Result<(), DbError> {
        self.db()
            .write(move |conn| {
                diesel::delete(debts::table.find((saga.to_string(), owed_seq))).execute(conn)?;
                Ok(())
            })
            .await
    }

    /// Notes that paying failed once more.
    pub async fn debt_failed(&self, saga: Uuid, owed_seq: i64, reason: String, needs_operator: bool) -> Result<(), DbError> {
        self.db()
            .write(move |conn| {
                diesel::update(debts::table.find((saga.to_string(), owed_seq)))
                    .set((debts::reason.eq(reason), debts::tries.eq(debts::tries + 1), debts::needs_operator.eq(needs_operator)))
                    .execute(conn)?;
                Ok(())
            })
            .await
    }
}

fn debt((saga, step, side, owed_seq, server, context, reason, tries, needs_operator, created_at): Row) -> Result<Debt, DbError> {
    let parse = |id: &str| Uuid::parse_str(id).map_err(|_| DbError::unreadable("an id column of debts", id));
    Ok(Debt {
        saga: parse(&saga)?,
        owed_seq,
        server: parse(&server)?,
        step,
        side,
        context,
        reason,
        tries,
        needs_operator,
        created_at: created_at.and_utc(),
    })
}
