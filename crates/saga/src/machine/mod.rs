//! The pure core: the state of a saga, and the effect of an outcome on it. It has no input, output or clock, so that a replay of the journal
//! gives the same state.

use crate::guard::Guard;
use crate::saga::Saga;
use crate::step::{Class, Table, Undo};
use crate::words::words;

/// The number of tries of an undo or a clean-up before it is owed as a debt.
pub const TRIES_BEFORE_DEBT: u32 = 4;
/// The number of tries in doubt of a step past the pivot before its undo is tried.
pub const TRIES_BEFORE_HAND_BACK: u32 = 3;

words! {
    /// A side of a step.
    Side {
        /// Does it.
        Act = "act",
        /// Undoes it.
        Undo = "undo",
    }
}

words! {
    /// The state of a saga, for those who watch it.
    State {
        /// The saga goes forward.
        Running = "running",
        /// The saga goes back.
        Unwinding = "unwinding",
        /// Every step is done, or its clean-up is owed.
        Done = "done",
        /// Every step that had begun is undone, or its undo is owed.
        Unwound = "unwound",
    }
}

words! {
    /// The journal's events: the beginning of a side, and its possible ends.
    Event {
        Begun = "begun",
        Ok = "ok",
        Failed = "failed",
        NextCandidate = "next_candidate",
        Unknown = "unknown",
        Timeout = "timeout",
        GoForward = "go_forward",
        Cancelled = "cancelled",
    }
}

/// The end of a side of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ok,
    Refused(String),
    NextCandidate(String),
    Unknown(String),
    /// Unknown, because the deadline passed.
    TimedOut(String),
    /// From an undo past the pivot: the act has taken effect after all, so the saga goes forward.
    GoForward(String),
    /// Between two tries: a wish to cancel turns the saga back.
    Cancelled(String),
}

impl Outcome {
    /// Returns the journal's event.
    pub fn event(&self) -> Event {
        match self {
            Outcome::Ok => Event::Ok,
            Outcome::Refused(_) => Event::Failed,
            Outcome::NextCandidate(_) => Event::NextCandidate,
            Outcome::Unknown(_) => Event::Unknown,
            Outcome::TimedOut(_) => Event::Timeout,
            Outcome::GoForward(_) => Event::GoForward,
            Outcome::Cancelled(_) => Event::Cancelled,
        }
    }

    /// Returns the outcome of an event; none for the beginning of a side.
    pub fn of(event: Event, error: Option<&str>) -> Option<Outcome> {
        let why = error.unwrap_or_default().to_owned();
        match event {
            Event::Begun => None,
            Event::Ok => Some(Outcome::Ok),
            Event::Failed => Some(Outcome::Refused(why)),
            Event::NextCandidate => Some(Outcome::NextCandidate(why)),
            Event::Unknown => Some(Outcome::Unknown(why)),
            Event::Timeout => Some(Outcome::TimedOut(why)),
            Event::GoForward => Some(Outcome::GoForward(why)),
            Event::Cancelled => Some(Outcome::Cancelled(why)),
        }
    }

    /// Returns the reason of a failure.
    pub fn error(&self) -> Option<&str> {
        match self {
            Outcome::Ok => None,
            Outcome::Refused(why)
            | Outcome::NextCandidate(why)
            | Outcome::Unknown(why)
            | Outcome::TimedOut(why)
            | Outcome::GoForward(why)
            | Outcome::Cancelled(why) => Some(why),
        }
    }
}

/// The reason why a saga goes backward.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Back {
    /// The saga failed, and goes back to its beginning.
    Unwind,
    /// A candidate refused, and the saga goes back to the step that chooses.
    NextCandidate,
}

/// The position of a saga.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cursor {
    Act(usize),
    Undo(usize, Back),
    Done,
    Unwound,
}

/// A saga's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    pub cursor: Cursor,
    /// The failed tries of the side at hand.
    pub tries: u32,
    /// True if the side at hand has begun, so that its possible effect must be undone, too.
    pub begun: bool,
    /// The first reason why the saga unwinds.
    pub error: Option<String>,
}

/// The runner's task after an outcome, besides going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// No task.
    None,
    /// Record this side of this step as owed.
    Owe(usize, Side),
}

impl Machine {
    /// Makes a saga whose first step is at hand.
    pub fn new() -> Machine {
        Machine { cursor: Cursor::Act(0), tries: 0, begun: false, error: None }
    }

    /// Returns the step and side at hand; none at the end.
    pub fn at_hand(&self) -> Option<(usize, Side)> {
        match self.cursor {
            Cursor::Act(step) => Some((step, Side::Act)),
            Cursor::Undo(step, _) => Some((step, Side::Undo)),
            Cursor::Done | Cursor::Unwound => None,
        }
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        match self.cursor {
            Cursor::Act(_) => State::Running,
            Cursor::Undo(..) => State::Unwinding,
            Cursor::Done => State::Done,
            Cursor::Unwound => State::Unwound,
        }
    }

    /// Records that the side at hand has begun.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// Applies a line of the journal, which must be about the side at hand: see [`crate::journal`].
    pub fn replay<S: Saga>(&mut self, table: &Table<S>, event: Event, error: Option<&str>) {
        match Outcome::of(event, error) {
            Some(outcome) => drop(self.apply(table, &outcome)),
            None => self.begin(),
        }
    }

    /// True if a wish to cancel turns the saga back now. False past the pivot, after a begun step that cannot be undone, and while the end of
    /// the pivot is unknown.
    pub fn may_turn_back<S: Saga>(&self, table: &Table<S>) -> bool {
        match self.cursor {
            Cursor::Act(step) => {
                let open = match table.steps[step].class {
                    Class::Reversible => true,
                    Class::Pivot => !self.begun,
                    Class::Forward | Class::Cleanup => false,
                };
                open && !table.steps[..step + usize::from(self.begun)].iter().any(|begun| begun.no_way_back)
            }
            Cursor::Undo(_, Back::NextCandidate) => true,
            Cursor::Undo(_, Back::Unwind) | Cursor::Done | Cursor::Unwound => false,
        }
    }

    /// Applies the end of the side at hand.
    pub fn apply<S: Saga>(&mut self, table: &Table<S>, outcome: &Outcome) -> Effect {
        if let Outcome::Cancelled(why) = outcome {
            self.turn_back(table, why);
            return Effect::None;
        }
        match self.cursor {
            Cursor::Act(step) => self.act_ended(table, step, outcome),
            Cursor::Undo(step, back) => self.undo_ended(table, step, back, outcome),
            Cursor::Done | Cursor::Unwound => Effect::None,
        }
    }

    /// Goes back to the beginning. A side that has not begun needs no undo.
    fn turn_back<S: Saga>(&mut self, table: &Table<S>, why: &str) {
        if S::stands(Guard::LateCancel) && !self.may_turn_back(table) {
            return;
        }
        match self.cursor {
            Cursor::Act(step) if self.begun => self.back_from(table, step, Back::Unwind, why),
            Cursor::Act(step) => {
                self.error.get_or_insert_with(|| why.to_owned());
                self.undone(table, step, Back::Unwind);
            }
            Cursor::Undo(step, _) => {
                self.error.get_or_insert_with(|| why.to_owned());
                self.cursor = Cursor::Undo(step, Back::Unwind);
            }
            Cursor::Done | Cursor::Unwound => {}
        }
    }

    fn act_ended<S: Saga>(&mut self, table: &Table<S>, step: usize, outcome: &Outcome) -> Effect {
        let Some(why) = outcome.error() else {
            self.forward_to(table, step + 1);
            return Effect::None;
        };
        let row = &table.steps[step];
        let definite = matches!(outcome, Outcome::Refused(_) | Outcome::NextCandidate(_));
        match row.class {
            Class::Reversible if !definite && self.tries + 1 < row.tries => self.tries += 1,
            Class::Reversible => {
                let another = matches!(outcome, Outcome::NextCandidate(_)) && chooses_before(table, step);
                let back = if another { Back::NextCandidate } else { Back::Unwind };
                // A step in doubt may have happened, so its own undo runs, too.
                let may_have_happened = definite || S::stands(Guard::DoubtfulStep);
                self.back_over(table, step, back, (why, may_have_happened));
            }
            Class::Pivot if S::stands(Guard::DoubtfulPivot) && !definite => self.tries += 1,
            Class::Pivot => self.back_from(table, step, Back::Unwind, why),
            Class::Forward if row.undo.work().is_some() && (definite || self.tries + 1 >= TRIES_BEFORE_HAND_BACK) => {
                self.back_from(table, step, Back::Unwind, why);
            }
            Class::Cleanup if self.tries + 1 >= TRIES_BEFORE_DEBT => {
                self.forward_to(table, step + 1);
                return Effect::Owe(step, Side::Act);
            }
            Class::Forward | Class::Cleanup => self.tries += 1,
        }
        Effect::None
    }

    fn undo_ended<S: Saga>(&mut self, table: &Table<S>, step: usize, back: Back, outcome: &Outcome) -> Effect {
        match outcome {
            Outcome::Ok => self.undone(table, step, back),
            Outcome::GoForward(_) => {
                self.error = None;
                self.forward_to(table, step + 1);
            }
            Outcome::Refused(_) | Outcome::NextCandidate(_) | Outcome::Unknown(_) | Outcome::TimedOut(_) | Outcome::Cancelled(_) => {
                match table.steps[step].class {
                    // Past the pivot nothing may be skipped: without the participant's word that it is fenced, go forward again.
                    class if class == Class::Cleanup || S::stands(Guard::TargetsWord) && class == Class::Forward => {
                        self.error = None;
                        self.cursor = Cursor::Act(step);
                        self.tries = 0;
                    }
                    Class::Pivot => self.tries += 1,
                    // The first step's undo gives back what the saga holds, so it is tried until it is done.
                    Class::Reversible if step == 0 => self.tries += 1,
                    Class::Reversible if self.tries + 1 >= TRIES_BEFORE_DEBT => {
                        // Another candidate needs clean ground: with a debt, give up on candidates.
                        let at_candidate = matches!(table.steps[step].undo, Undo::AtCandidate(_));
                        let back = if at_candidate { back } else { Back::Unwind };
                        if back == Back::Unwind && self.error.is_none() {
                            self.error = outcome.error().map(str::to_owned);
                        }
                        self.undone(table, step, back);
                        return Effect::Owe(step, Side::Undo);
                    }
                    Class::Reversible | Class::Forward | Class::Cleanup => self.tries += 1,
                }
            }
        }
        Effect::None
    }

    fn forward_to<S: Saga>(&mut self, table: &Table<S>, step: usize) {
        (self.tries, self.begun) = (0, false);
        self.cursor = if step < table.steps.len() { Cursor::Act(step) } else { Cursor::Done };
    }

    fn back_from<S: Saga>(&mut self, table: &Table<S>, step: usize, back: Back, why: &str) {
        self.back_over(table, step, back, (why, true));
    }

    /// Turns back at a step. Its own undo runs if it has one and the step may have happened.
    fn back_over<S: Saga>(&mut self, table: &Table<S>, step: usize, back: Back, (why, may_have_happened): (&str, bool)) {
        if back == Back::Unwind && self.error.is_none() {
            self.error = Some(why.to_owned());
        }
        (self.tries, self.begun) = (0, false);
        match may_have_happened && table.steps[step].undo.work().is_some() {
            true => self.cursor = Cursor::Undo(step, back),
            false => self.undone(table, step, back),
        }
    }

    /// Goes on to the next earlier step that has an undo.
    fn undone<S: Saga>(&mut self, table: &Table<S>, step: usize, back: Back) {
        (self.tries, self.begun) = (0, false);
        if back == Back::NextCandidate && table.chooses == Some(table.steps[step].name) {
            self.cursor = Cursor::Act(step);
            return;
        }
        let earlier = (0..step).rev().find(|&earlier| {
            table.steps[earlier].undo.work().is_some() || (back == Back::NextCandidate && table.chooses == Some(table.steps[earlier].name))
        });
        self.cursor = match earlier {
            Some(earlier) => Cursor::Undo(earlier, back),
            None => Cursor::Unwound,
        };
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::new()
    }
}

fn chooses_before<S: Saga>(table: &Table<S>, step: usize) -> bool {
    table.chooses.and_then(|name| table.position(name)).is_some_and(|chooser| chooser < step)
}

#[cfg(test)]
mod tests;
