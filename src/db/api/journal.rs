//! The lines of the sagas' journals. They are only ever added, under the lease of the saga: see [`super::operations`].

use std::collections::BTreeMap;

use chrono::NaiveDateTime;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Timestamp};
use uuid::Uuid;

use super::operations::{AT_ONCE, Operations, parse, texts};
use crate::db::rows::Statement;
use crate::db::{Conn, DbError, rows};
use crate::domain::saga_record::JournalEntry;

diesel::table! {
    journal (saga_id, seq) {
        saga_id -> Text,
        seq -> BigInt,
        step -> Text,
        side -> Text,
        attempt -> BigInt,
        event -> Text,
        error -> Nullable<Text>,
        at -> Timestamp,
    }
}

impl Operations {
    /// Returns the journal of a saga, in order.
    pub async fn entries(&self, saga: Uuid) -> Result<Vec<JournalEntry>, DbError> {
        self.db().read(move |conn| entries_of(conn, saga)).await
    }

    /// Returns the journals of these sagas.
    pub async fn journals(&self, sagas: Vec<Uuid>) -> Result<BTreeMap<Uuid, Vec<JournalEntry>>, DbError> {
        if sagas.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.db()
            .read(move |conn| {
                let mut journals = BTreeMap::new();
                for ids in texts(&sagas).chunks(AT_ONCE) {
                    journals.extend(journals_of(conn, ids.iter().map(String::as_str))?);
                }
                Ok(journals)
            })
            .await
    }
}

/// The columns of a line.
pub(super) const JOURNAL: [&str; 8] = ["saga_id", "seq", "step", "side", "attempt", "event", "error", "at"];

pub(super) fn insert_entries(conn: &mut Conn, saga: &str, entries: &[JournalEntry]) -> Result<(), DbError> {
    rows::insert(conn, ("journal", &JOURNAL), entries, |statement, entry| bind(statement.bind::<Text, _>(saga), entry))
}

/// Binds a line's values, without its saga's id, in the order of the columns.
pub(super) fn bind<'a>(statement: Statement<'a>, entry: &'a JournalEntry) -> Statement<'a> {
    statement
        .bind::<BigInt, _>(entry.seq)
        .bind::<Text, _>(&entry.step)
        .bind::<Text, _>(&entry.side)
        .bind::<BigInt, _>(entry.attempt)
        .bind::<Text, _>(&entry.event)
        .bind::<Nullable<Text>, _>(&entry.error)
        .bind::<Timestamp, _>(entry.at.naive_utc())
}

pub(super) fn entries_of(conn: &mut Conn, saga: Uuid) -> Result<Vec<JournalEntry>, DbError> {
    let rows: Vec<EntryRow> = journal::table.filter(journal::saga_id.eq(saga.to_string())).order(journal::seq).load(conn)?;
    Ok(rows.into_iter().map(entry).collect())
}

/// Returns the journals of these sagas, at most [`AT_ONCE`].
pub(super) fn journals_of<'a>(conn: &mut Conn, sagas: impl Iterator<Item = &'a str>) -> Result<BTreeMap<Uuid, Vec<JournalEntry>>, DbError> {
    let of_these = journal::table.filter(journal::saga_id.eq_any(sagas)).order((journal::saga_id, journal::seq));
    by_saga(of_these.load(conn)?)
}

/// Sorts lines by their sagas.
pub(super) fn by_saga(rows: Vec<EntryRow>) -> Result<BTreeMap<Uuid, Vec<JournalEntry>>, DbError> {
    let mut journals: BTreeMap<Uuid, Vec<JournalEntry>> = BTreeMap::new();
    for row in rows {
        journals.entry(parse(&row.0)?).or_default().push(entry(row));
    }
    Ok(journals)
}

pub(super) type EntryRow = (String, i64, String, String, i64, String, Option<String>, NaiveDateTime);

pub(super) fn entry((_, seq, step, side, attempt, event, error, at): EntryRow) -> JournalEntry {
    JournalEntry { seq, step, side, attempt, event, error, at: at.and_utc() }
}
