//! A commit to a saga's journal: its lines, the saga's record, and the attempt of the step that begins, all under the saga's lease
//! (INVARIANTS S1 and S6). Between two steps of every operation there is a commit, so PostgreSQL gets all of it in one statement (ADR 17).

use chrono::NaiveDateTime;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Double, Nullable, Text, Timestamp};
use uuid::Uuid;

use super::cancellations::{self, FollowUp};
use super::debts::{self, NewDebt};
use super::journal::{JOURNAL, bind, insert_entries};
use super::operations::{Operations, lease_lost, operations, sagas};
use super::ownership;
use crate::db::clock::ClockTime;
use crate::db::columns::Json;
use crate::db::{Conn, DbError, rows};
use crate::domain::cancellation::Cancellation;
use crate::domain::fence::Fence;
use crate::domain::saga_record::JournalEntry;
use crate::domain::saga_state::SagaState;
use crate::env::guard::{Guard, stands};

/// The changes that one commit makes to a saga's journal and record.
#[derive(Clone, Debug)]
pub struct Append {
    pub saga: Uuid,
    pub server: Uuid,
    pub lease_epoch: i64,
    /// The new entries. If the last one is `begun`, the commit fills in its attempt.
    pub entries: Vec<JournalEntry>,
    pub state: SagaState,
    pub step: String,
    /// The context, if it changed.
    pub context: Option<String>,
    pub error: Option<String>,
    /// Takes the next attempt and writes it into the last entry.
    pub begins: bool,
    /// The saga is over: releases the server.
    pub ends: bool,
    /// Undos and clean-ups that are owed from this commit on.
    pub owed: Vec<NewDebt>,
    /// If a wish to cancel is recorded, reports it and begins no step.
    pub heeds_cancellation: bool,
    /// At the end of the saga: makes the operation of the queued delete, which takes the server in the same commit.
    pub follow_up: Option<FollowUp>,
}

/// The result of a commit to a saga's journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The fence of the step that begins, else of the present step.
    pub fence: Fence,
    /// The wish that the saga be cancelled, if the append heeds it. A step that was to begin has not begun, and its entry is not written.
    pub cancelled: Option<Cancellation>,
    /// The delete that holds the server from this commit on.
    pub follower: Option<Uuid>,
}

impl Operations {
    /// Appends to the journal under the lease. Conflict if the lease has passed to another owner.
    pub async fn append(&self, append: Append) -> Result<Appended, DbError> {
        let (now, until) = (self.db().env().now().naive_utc(), self.lease_end());
        if append.ends || !append.owed.is_empty() {
            return self.db().write(move |conn| append_in(conn, append, now, until)).await;
        }
        let at_once = move |conn: &mut Conn| match conn.is_postgres() {
            true => append_at_once(conn, append, now, until),
            false => append_in(conn, append, now, until),
        };
        self.db().write_at_once(at_once).await
    }
}

fn append_in(conn: &mut Conn, mut append: Append, now: NaiveDateTime, until: ClockTime) -> Result<Appended, DbError> {
    let id = append.saga.to_string();
    let held = diesel::update(sagas::table.find(&id).filter(sagas::lease_epoch.eq(append.lease_epoch)))
        .set((
            sagas::state.eq(append.state.as_str()),
            sagas::step.eq(&append.step),
            sagas::error.eq(&append.error),
            sagas::updated_at.eq(now),
            sagas::lease_until.eq(until),
            append.context.as_ref().map(|context| sagas::context.eq(context)),
        ))
        // The wish as the update finds it: on PostgreSQL a concurrent wish has committed by then, or commits after this commit.
        .returning(sagas::cancellation)
        .get_result::<Option<Cancellation>>(conn)
        .optional()?;
    if stands(Guard::JournalLease) && held.is_none() {
        return Err(lease_lost(append.saga));
    }
    let cancelled = held.flatten().filter(|_| append.heeds_cancellation);
    let begins = append.begins && cancelled.is_none();
    if append.begins && !begins {
        append.entries.pop();
    }
    let fence = if begins && stands(Guard::FreshAttempt) {
        ownership::take_attempt(conn, append.server)?
    } else {
        let row = ownership::find(conn, append.server)?;
        row.map_or(Fence { server: append.server, epoch: 0, attempt: 0 }, |row| Fence {
            server: row.server,
            epoch: row.epoch,
            attempt: row.attempt,
        })
    };
    if let Some(beginning) = append.entries.last_mut().filter(|_| begins) {
        beginning.attempt = fence.attempt;
    }
    insert_entries(conn, &id, &append.entries)?;
    for debt in append.owed {
        debts::insert(conn, append.saga, append.server, debt, now)?;
    }
    let mut follower = None;
    if append.ends {
        diesel::delete(operations::table.filter(operations::saga_id.eq(&id))).execute(conn)?;
        if let Some(follow_up) = &append.follow_up {
            follower = cancellations::follow(conn, &id, append.server, follow_up, (now, until))?;
        }
    }
    Ok(Appended { fence, cancelled, follower })
}

/// Does what [`append_in`] does, in one statement of PostgreSQL. A saga's end and debts are not for it.
fn append_at_once(conn: &mut Conn, mut append: Append, now: NaiveDateTime, until: ClockTime) -> Result<Appended, DbError> {
    let beginning = if append.begins { append.entries.pop() } else { None };
    let (id, server) = (append.saga.to_string(), append.server.to_string());
    let mut statement = diesel::sql_query(text(append.entries.len(), beginning.is_some()))
        .into_boxed()
        .bind::<Text, _>(append.state.as_str())
        .bind::<Text, _>(&append.step)
        .bind::<Nullable<Text>, _>(&append.error)
        .bind::<Timestamp, _>(now)
        .bind::<Nullable<Text>, _>(&append.context)
        .bind::<Double, _>(until.seconds())
        .bind::<Text, _>(&id)
        .bind::<BigInt, _>(append.lease_epoch)
        .bind::<Text, _>(&server)
        .bind::<Bool, _>(append.heeds_cancellation);
    for entry in append.entries.iter().chain(&beginning) {
        statement = bind(statement, entry);
    }
    let Some(written) = statement.get_result::<Written>(conn).optional()? else { return Err(lease_lost(append.saga)) };
    Ok(Appended {
        fence: Fence { server: append.server, epoch: written.epoch, attempt: written.attempt },
        cancelled: written.cancellation.filter(|_| append.heeds_cancellation),
        follower: None,
    })
}

#[derive(QueryableByName)]
struct Written {
    #[diesel(sql_type = Nullable<Json>)]
    cancellation: Option<Cancellation>,
    #[diesel(sql_type = BigInt)]
    epoch: i64,
    #[diesel(sql_type = BigInt)]
    attempt: i64,
}

/// The number of values before those of the lines.
const BEFORE_LINES: usize = 10;

/// Returns the statement for this number of lines that are ready, and for the line that begins a step. A row with the fence comes back if
/// the lease is held. Each part works on what the part before returns, so that nothing is written without the lease.
fn text(ready: usize, begins: bool) -> String {
    // Without the saga's id, as `bind` binds a line.
    let line = &JOURNAL[1..];
    let columns = line.join(", ");
    let mut lines = Vec::new();
    if ready > 0 {
        let values = rows::places(BEFORE_LINES, ready, line.len());
        lines.push(format!("SELECT $7, ready.* FROM held CROSS JOIN (VALUES {values}) AS ready ({columns})"));
    }
    if begins {
        let before = BEFORE_LINES + ready * line.len();
        let place = |(at, column): (usize, &&str)| match *column {
            "attempt" => "taken.attempt".to_owned(),
            _ => format!("${}", before + at + 1),
        };
        let values: Vec<String> = line.iter().enumerate().map(place).collect();
        lines.push(format!("SELECT $7, {} FROM taken", values.join(", ")));
    }
    let journal = match lines.is_empty() {
        true => String::new(),
        false => format!(", written AS (INSERT INTO journal (saga_id, {columns}) {})", lines.join(" UNION ALL ")),
    };
    format!(
        "WITH held AS (UPDATE sagas SET state = $1, step = $2, error = $3, updated_at = $4, context = COALESCE($5, context), \
         lease_until = clock_timestamp() AT TIME ZONE 'UTC' + $6 * INTERVAL '1 second' \
         WHERE id = $7 AND lease_epoch = $8 RETURNING cancellation), \
         taken AS (INSERT INTO ownership (server_uuid, epoch, attempt) \
         SELECT $9, 0, 1 FROM held WHERE {begins} AND (cancellation IS NULL OR NOT $10) \
         ON CONFLICT (server_uuid) DO UPDATE SET attempt = ownership.attempt + 1 RETURNING epoch, attempt){journal} \
         SELECT held.cancellation, COALESCE(taken.epoch, known.epoch, 0) AS epoch, COALESCE(taken.attempt, known.attempt, 0) AS attempt \
         FROM held LEFT JOIN taken ON TRUE LEFT JOIN ownership AS known ON known.server_uuid = $9"
    )
}

#[cfg(test)]
mod tests;
