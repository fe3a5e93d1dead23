//! The rules of a runner: what enters the journal when, when a saga turns back, and what it owes at its end. A runner asks a [`Course`] what is
//! at hand, has its store write what the course gives it, and tells it the ends of sides. The course has no input, output or clock.

use crate::debt::Owed;
use crate::journal::{Entry, Line, Unreadable, replay};
use crate::machine::{Cursor, Effect, Event, Machine, Outcome, Side, State};
use crate::saga::Saga;
use crate::step::{Step, Table};

/// A saga in the hands of a runner: its machine, and the lines for the next commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Course<S: Saga> {
    machine: Machine,
    next_seq: i64,
    pending: Vec<Line<S>>,
}

/// A commit of the store. The lines, the state and the context are written together, or not at all.
#[must_use = "the store writes it before the saga goes on"]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit<S: Saga> {
    /// The lines that follow those in the journal.
    pub lines: Vec<Line<S>>,
    pub state: State,
    /// The first reason why the saga unwinds.
    pub error: Option<String>,
    /// True if the last line begins a side: the store gives the next attempt out with it, and writes it into the line.
    pub begins: bool,
    /// True if the saga is over: the store lets go of what the saga holds.
    pub ends: bool,
    /// True if the store looks for a wish to cancel in this commit. If there is one, it omits a beginning, and the runner turns the saga back.
    pub heeds_cancellation: bool,
}

/// A service that a saga leaves lost: see [`Step::service_depends`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// Until the debt is paid.
    UntilPaid,
    /// No debt brings it back: the act that failed has no undo.
    ForGood,
}

/// The consequences of a side's end, besides going on.
#[must_use = "a debt that is not recorded is never paid"]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consequences<S: Saga> {
    /// To be stored with the next commit.
    pub owed: Option<Owed<S>>,
    /// The service that depends on the step, if it is lost.
    pub lost: Option<Lost>,
}

impl<S: Saga> Course<S> {
    /// Makes the course of a saga of which nothing is done.
    pub fn new() -> Course<S> {
        Course { machine: Machine::new(), next_seq: 0, pending: Vec::new() }
    }

    /// Makes the course of a saga whose first step was performed under this attempt when the saga was accepted. The store has written the
    /// beginning of that step as line 0, in the commit that took what the saga holds.
    pub fn accepted(table: &Table<S>, attempt: i64, at: S::Time) -> Course<S> {
        let mut course = Course { next_seq: 1, ..Course::new() };
        course.push(table.steps[0].name, Side::Act, attempt, Event::Ok, None, at);
        course.machine.apply(table, &Outcome::Ok);
        course
    }

    /// Makes the course of a saga that is taken over, by a replay of its journal. A side in doubt is at hand again. Refuses a journal that does
    /// not fit the table.
    pub fn resumed<'a>(table: &Table<S>, entries: impl IntoIterator<Item = Entry<'a>>) -> Result<Course<S>, Unreadable> {
        let mut next_seq = 0;
        let entries = entries.into_iter().inspect(|entry| next_seq = entry.seq + 1);
        let machine = replay(table, entries)?;
        Ok(Course { machine, next_seq, pending: Vec::new() })
    }

    /// Returns the state of the saga.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the step and side at hand; none at the end.
    pub fn at_hand(&self, table: &Table<S>) -> Option<(&'static Step<S>, Side)> {
        self.machine.at_hand().map(|(position, side)| (&table.steps[position], side))
    }

    /// True if only the first step has been performed, and its end is not in the journal.
    pub fn is_new(&self) -> bool {
        self.next_seq == 2 && !self.pending.is_empty()
    }

    /// Passes over the side at hand, which has nothing to do; the next commit records it. The line has no attempt, because no effect carries
    /// one.
    pub fn pass_over(&mut self, table: &Table<S>, at: S::Time) {
        let Some((step, side)) = self.at_hand(table) else { return };
        self.push(step.name, side, 0, Event::Ok, None, at);
        self.machine.apply(table, &Outcome::Ok);
    }

    /// Returns the commit that begins the side at hand. It is written before the side is performed; then [`Course::begun`] follows.
    pub fn begin(&mut self, table: &Table<S>, at: S::Time) -> Commit<S> {
        if let Some((step, side)) = self.at_hand(table) {
            self.push(step.name, side, 0, Event::Begun, None, at);
        }
        Commit { begins: true, heeds_cancellation: self.machine.may_turn_back(table), ..self.commit() }
    }

    /// Follows the commit of [`Course::begin`]. If `is_cancelled`, the store met a wish to cancel and wrote no beginning: [`Course::turn_back`]
    /// comes next.
    pub fn begun(&mut self, is_cancelled: bool) {
        if is_cancelled {
            self.next_seq -= 1;
        } else {
            self.machine.begin();
        }
    }

    /// Returns the commit before a pause: what has ended is written, and a wish to cancel is looked for.
    pub fn rest(&mut self, table: &Table<S>) -> Commit<S> {
        Commit { heeds_cancellation: self.machine.may_turn_back(table), ..self.commit() }
    }

    /// Returns the commit that makes visible what has ended.
    pub fn show(&mut self) -> Commit<S> {
        self.commit()
    }

    /// Returns the commit that ends the saga.
    pub fn end(&mut self) -> Commit<S> {
        Commit { ends: true, ..self.commit() }
    }

    /// Turns the saga back because somebody wants it cancelled; the next commit records it. Does nothing past the pivot (see
    /// [`Machine::may_turn_back`]).
    pub fn turn_back(&mut self, table: &Table<S>, why: &str, at: S::Time) {
        let Some((step, side)) = self.at_hand(table) else { return };
        self.push(step.name, side, 0, Event::Cancelled, Some(why.to_owned()), at);
        self.machine.apply(table, &Outcome::Cancelled(why.to_owned()));
    }

    /// Takes in the end of the side at hand, which was performed under this attempt; the next commit records it.
    pub fn ended(&mut self, table: &Table<S>, attempt: i64, outcome: &Outcome, at: S::Time) -> Consequences<S> {
        let Some((step, side)) = self.at_hand(table) else { return Consequences { owed: None, lost: None } };
        let why = outcome.error().map(str::to_owned);
        let seq = self.push(step.name, side, attempt, outcome.event(), why.clone(), at);
        let effect = self.machine.apply(table, outcome);
        let is_given_up = matches!(self.machine.cursor, Cursor::Undo(..)) && side == Side::Act && step.undo.work().is_none();
        let lost = match effect {
            _ if !step.service_depends => None,
            _ if is_given_up => Some(Lost::ForGood),
            Effect::Owe(..) => Some(Lost::UntilPaid),
            Effect::None => None,
        };
        let owed = match effect {
            Effect::Owe(_, side) => Some(Owed { seq, step: step.name, side, reason: why.unwrap_or_default() }),
            Effect::None => None,
        };
        Consequences { owed, lost }
    }

    fn push(&mut self, step: S::Name, side: Side, attempt: i64, event: Event, error: Option<String>, at: S::Time) -> i64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.pending.push(Line { seq, step, side, attempt, event, error, at });
        seq
    }

    fn commit(&mut self) -> Commit<S> {
        Commit {
            lines: std::mem::take(&mut self.pending),
            state: self.machine.state(),
            error: self.machine.error.clone(),
            begins: false,
            ends: false,
            heeds_cancellation: false,
        }
    }
}

impl<S: Saga> Default for Course<S> {
    fn default() -> Course<S> {
        Course::new()
    }
}

#[cfg(test)]
mod tests;
