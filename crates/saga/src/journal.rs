//! The lines of a journal, and the reading of a journal against its saga's table. A line that is not about the side at hand is refused,
//! because a guess would repeat or omit a step.

use crate::machine::{Event, Machine, Side};
use crate::saga::Saga;
use crate::step::Table;

/// A line to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line<S: Saga> {
    /// Its number in the journal of its saga, from 0, without gaps.
    pub seq: i64,
    pub step: S::Name,
    pub side: Side,
    /// The attempt whose fence the effect carried. 0 for a line without an effect, and for a beginning, whose attempt the store gives out.
    pub attempt: i64,
    pub event: Event,
    /// The reason of a failure.
    pub error: Option<String>,
    pub at: S::Time,
}

impl<S: Saga> Line<S> {
    /// Returns the line as a replay reads it.
    pub fn as_entry(&self) -> Entry<'_> {
        Entry {
            seq: self.seq,
            step: self.step.as_ref(),
            side: self.side.as_str(),
            event: self.event.as_str(),
            error: self.error.as_deref(),
        }
    }
}

/// A line as it was stored, in words: an earlier release may have written it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    pub seq: i64,
    pub step: &'a str,
    pub side: &'a str,
    pub event: &'a str,
    pub error: Option<&'a str>,
}

/// The reason why this release cannot read a saga's record or journal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Returns the machine in the state of the journal.
pub fn replay<'a, S: Saga>(table: &Table<S>, entries: impl IntoIterator<Item = Entry<'a>>) -> Result<Machine, Unreadable> {
    let mut machine = Machine::new();
    for entry in entries {
        take_in(&mut machine, table, entry)?;
    }
    Ok(machine)
}

/// Applies the next line of a journal.
pub fn take_in<S: Saga>(machine: &mut Machine, table: &Table<S>, entry: Entry<'_>) -> Result<(), Unreadable> {
    let Entry { seq, step, side, event, error } = entry;
    let Some((position, at_hand)) = machine.at_hand() else {
        return Err(Unreadable(format!("entry {seq} follows the end of the saga, expected nothing past it")));
    };
    let expected = table.steps[position].name;
    if step != expected.as_ref() || side != at_hand.as_str() {
        return Err(Unreadable(format!("entry {seq} is about {side} {step}, expected {at_hand} {expected}, which was at hand")));
    }
    let Some(event) = Event::parse(event) else {
        return Err(Unreadable(format!("entry {seq} says {event:?}, which this release does not know")));
    };
    machine.replay(table, event, error);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{STEPS, TABLE};

    fn line(seq: i64, step: &'static str, event: &'static str) -> Entry<'static> {
        Entry { seq, step, side: "act", event, error: None }
    }

    fn refusal(entries: Vec<Entry<'_>>) -> String {
        replay(&TABLE, entries).unwrap_err().to_string()
    }

    #[test]
    fn a_line_about_another_side_is_refused() {
        let lines = vec![line(0, "take", "ok"), line(1, "choose", "begun")];
        assert_eq!(refusal(lines), "entry 1 is about act choose, expected act look, which was at hand");
        let undo = Entry { side: "undo", ..line(0, "take", "begun") };
        assert_eq!(refusal(vec![undo]), "entry 0 is about undo take, expected act take, which was at hand");
    }

    #[test]
    fn a_word_of_a_later_release_is_refused() {
        assert_eq!(refusal(vec![line(0, "take", "halted")]), "entry 0 says \"halted\", which this release does not know");
    }

    #[test]
    fn nothing_follows_the_end() {
        let whole = STEPS.iter().map(|step| line(0, step.name, "ok"));
        let lines: Vec<Entry<'_>> = whole.chain([line(9, "take", "begun")]).collect();
        assert_eq!(refusal(lines), "entry 9 follows the end of the saga, expected nothing past it");
    }
}
