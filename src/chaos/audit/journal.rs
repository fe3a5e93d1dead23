//! I8, I9 and I13: the journal has no gaps and nothing after its end, undos run in reverse order and only for steps that were begun, and
//! attempts rise.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::report::{Findings, Violation};
use super::snapshot::Snapshot;
use crate::domain::saga_record::{JournalEntry, SagaRecord};
use crate::saga::context::Context;
use crate::saga::journal::replay;
use crate::saga::machine::Side;
use crate::saga::step::{Step, Table};
use crate::saga::tables;

/// A cache of sagas' tables with the contexts that determine them, so that an unchanged context is not parsed again.
#[derive(Default)]
pub struct Tables(BTreeMap<Uuid, (String, Table)>);

impl Tables {
    fn of(&mut self, saga: &SagaRecord) -> Result<Table, String> {
        match self.0.get(&saga.id) {
            Some((context, table)) if *context == saga.context => Ok(*table),
            _ => {
                let context: Context =
                    serde_json::from_str(&saga.context).map_err(|error| format!("its context cannot be read: {error}"))?;
                let tables = tables::Tables::released(context.kind, saga.table_version);
                let table = tables.ok_or_else(|| format!("its table has the unknown version {}", saga.table_version))?.of(&context);
                self.0.insert(saga.id, (saga.context.clone(), table));
                Ok(table)
            }
        }
    }
}

/// Finds violations of I8, I9 and I13 in all journals.
pub fn check(snapshot: &Snapshot) -> Vec<Violation> {
    check_again(snapshot, &mut Tables::default())
}

/// Checks as [`check`] does, with a cache for callers that check the same sagas repeatedly.
pub fn check_again(snapshot: &Snapshot, tables: &mut Tables) -> Vec<Violation> {
    let mut findings = Findings::of(snapshot);
    for saga in &snapshot.sagas {
        let none = Vec::new();
        let entries = snapshot.journals.get(&saga.id).unwrap_or(&none);
        let subject = format!("migration {}", saga.id);
        no_gaps(&subject, entries, &mut findings);
        undone_in_reverse(&subject, entries, &mut findings);
        attempts_rise(snapshot, saga, &subject, entries, &mut findings);
        if saga.state.is_over() {
            nothing_is_open(saga, &subject, entries, &mut findings);
        } else if !snapshot.busy.contains(&saga.server) || snapshot.holders.get(&saga.server) == Some(&saga.id) {
            can_be_resumed(saga, &subject, entries, tables, &mut findings);
        }
    }
    for orphan in snapshot.journals.keys().filter(|id| !snapshot.sagas.iter().any(|saga| saga.id == **id)) {
        if !snapshot.is_in_flight(*orphan) {
            findings.add("I8", format!("migration {orphan}"), "it has a journal but no record, expected both");
        }
    }
    findings.done()
}

/// Returns a live saga's context and the step whose act runs. None at its beginning, at its end, and while it unwinds.
pub fn step_at_work(saga: &SagaRecord, entries: &[JournalEntry]) -> Option<(Context, Step)> {
    let context: Context = serde_json::from_str(&saga.context).ok().filter(|_| !saga.state.is_over())?;
    let table = tables::Tables::released(context.kind, saga.table_version)?.of(&context);
    match replay(&table, entries).ok()?.at_hand() {
        Some((position, Side::Act)) if position > 0 => Some((context, table.steps[position])),
        _ => None,
    }
}

fn no_gaps(subject: &str, entries: &[JournalEntry], findings: &mut Findings) {
    if entries.is_empty() {
        return findings.add("I8", subject, "its journal is empty, expected at least the entry that began it");
    }
    for (expected, entry) in (0..).zip(entries) {
        if entry.seq != expected {
            return findings.add(
                "I8",
                subject,
                format!("entry {} follows entry {} in its journal, expected {expected}", entry.seq, expected - 1),
            );
        }
    }
}

/// Follows the steps that are begun and not undone: an undo removes its step and all later ones.
fn undone_in_reverse(subject: &str, entries: &[JournalEntry], findings: &mut Findings) {
    let mut open_steps: Vec<&str> = Vec::new();
    for entry in entries {
        let position = open_steps.iter().position(|step| *step == entry.step);
        match (entry.side.as_str(), entry.event.as_str(), position) {
            // A step that was passed over ends without a beginning. An experiment that names it may have its undo performed all the same.
            ("act", "begun" | "ok", None) => open_steps.push(&entry.step),
            ("act" | "undo", "begun", Some(position)) => open_steps.truncate(position + 1),
            (_, event, _) if event != "begun" => {}
            _ => {
                let message =
                    format!("entry {} begins to undo {}, expected only steps that are begun, the latest first", entry.seq, entry.step);
                findings.add("I9", subject, message);
            }
        }
    }
}

fn attempts_rise(snapshot: &Snapshot, saga: &SagaRecord, subject: &str, entries: &[JournalEntry], findings: &mut Findings) {
    let attempts: Vec<&JournalEntry> = entries.iter().filter(|entry| entry.event == "begun").collect();
    for pair in attempts.windows(2) {
        if pair[1].attempt <= pair[0].attempt {
            let message =
                format!("entry {} has attempt {}, expected more than the {} before it", pair[1].seq, pair[1].attempt, pair[0].attempt);
            findings.add("I13", subject, message);
        }
    }
    let counter = snapshot.ownership.get(&saga.server).map_or(0, |row| row.attempt);
    if let Some(last) = attempts.last().filter(|last| last.attempt > counter) {
        findings.add("I13", subject, format!("its last attempt is {}, expected at most {counter}, the server's counter", last.attempt));
    }
}

/// The end of a saga is written with the end of its last step, so no step may be open.
fn nothing_is_open(saga: &SagaRecord, subject: &str, entries: &[JournalEntry], findings: &mut Findings) {
    if let Some(last) = entries.last().filter(|last| last.event == "begun") {
        let message = format!(
            "it is {} but entry {} begins {} {} after that, expected nothing past the end",
            saga.state, last.seq, last.side, last.step
        );
        findings.add("I8", subject, message);
    }
}

/// Replays a live saga's journal as a successor would: each entry must be the step at hand.
fn can_be_resumed(saga: &SagaRecord, subject: &str, entries: &[JournalEntry], tables: &mut Tables, findings: &mut Findings) {
    let table = match tables.of(saga) {
        Ok(table) => table,
        Err(error) => {
            return findings.add("I8", subject, format!("{error}, expected what a successor can go on with"));
        }
    };
    if let Err(error) = replay(&table, entries) {
        findings.add("I8", subject, error.to_string());
    }
}
