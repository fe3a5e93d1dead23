//! The journal's lines, as the database keeps them and as the engine reads and writes them.

use cellshift_saga::journal::Entry;
pub use cellshift_saga::journal::Unreadable;

use super::compute::Compute;
use super::machine::Machine;
use super::step::Table;
use crate::domain::saga_record::JournalEntry;

/// A line to be written.
pub type Line = cellshift_saga::journal::Line<Compute>;

/// Returns the line as the engine reads it.
pub fn read(entry: &JournalEntry) -> Entry<'_> {
    let JournalEntry { seq, step, side, event, error, .. } = entry;
    Entry { seq: *seq, step, side, event, error: error.as_deref() }
}

/// Returns the line as the database keeps it.
pub fn stored(line: Line) -> JournalEntry {
    let Line { seq, step, side, attempt, event, error, at } = line;
    JournalEntry { seq, step: step.to_string(), side: side.to_string(), attempt, event: event.to_string(), error, at }
}

/// Returns the machine in the state of the journal.
pub fn replay(table: &Table, entries: &[JournalEntry]) -> Result<Machine, Unreadable> {
    cellshift_saga::journal::replay(table, entries.iter().map(read))
}
