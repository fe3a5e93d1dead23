//! Reads a journal against its saga's table. A line that is not about the side at hand is refused, because a guess would repeat or omit a
//! step.

use super::machine::{Event, Machine};
use super::step::Table;
use crate::db::api::operations::JournalEntry;

/// The reason why this release cannot read a saga's record or journal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Returns the machine in the state of the journal.
pub fn replay(table: &Table, entries: &[JournalEntry]) -> Result<Machine, Unreadable> {
    let mut machine = Machine::new();
    for entry in entries {
        take_in(&mut machine, table, entry)?;
    }
    Ok(machine)
}

/// Applies the next line of a journal.
pub fn take_in(machine: &mut Machine, table: &Table, entry: &JournalEntry) -> Result<(), Unreadable> {
    let JournalEntry { seq, step, side, event, .. } = entry;
    let Some((position, at_hand)) = machine.at_hand() else {
        return Err(Unreadable(format!("entry {seq} follows the end of the saga, expected nothing past it")));
    };
    let expected = table.steps[position].name;
    if *step != expected.as_str() || *side != at_hand.as_str() {
        return Err(Unreadable(format!("entry {seq} is about {side} {step}, expected {at_hand} {expected}, which was at hand")));
    }
    let Some(known) = Event::parse(event) else {
        return Err(Unreadable(format!("entry {seq} says {event:?}, which this release does not know")));
    };
    machine.replay(table, known, entry.error.as_deref());
    Ok(())
}
