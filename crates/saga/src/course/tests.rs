//! The rules of a runner, with a journal that is a list.

use proptest::prelude::*;

use super::*;
use crate::fixture::{TABLE, Tiny, count};
use crate::machine::TRIES_BEFORE_DEBT;
use crate::step::Undo;
use crate::work;

/// A journal with the course that writes it. Each beginning is an attempt of its own.
struct Journal {
    course: Course<Tiny>,
    lines: Vec<Line<Tiny>>,
    attempt: i64,
}

impl Journal {
    fn new() -> Journal {
        Journal { course: Course::new(), lines: Vec::new(), attempt: 0 }
    }

    fn write(&mut self, commit: Commit<Tiny>) {
        self.lines.extend(commit.lines);
    }

    fn begin(&mut self) {
        let commit = self.course.begin(&TABLE, ());
        self.write(commit);
        self.attempt += 1;
        self.lines.last_mut().unwrap().attempt = self.attempt;
        self.course.begun(false);
    }

    fn side(&mut self, outcome: &Outcome) -> Consequences<Tiny> {
        self.begin();
        self.course.ended(&TABLE, self.attempt, outcome, ())
    }

    fn resumed(&self) -> Course<Tiny> {
        Course::resumed(&TABLE, self.lines.iter().map(Line::as_entry)).unwrap()
    }

    fn words(&self) -> Vec<String> {
        self.lines.iter().map(|line| format!("{} {} {} {}", line.seq, line.side, line.step, line.event)).collect()
    }
}

fn unknown() -> Outcome {
    Outcome::Unknown("silence".into())
}

#[test]
fn a_beginning_is_written_with_the_end_before_it() {
    let mut journal = Journal::new();
    let _ = journal.side(&Outcome::Ok);
    assert_eq!(journal.words(), ["0 act take begun"]);
    journal.begin();
    assert_eq!(journal.words()[1..], ["1 act take ok", "2 act look begun"]);
}

#[test]
fn a_step_that_is_passed_over_has_its_end_alone() {
    let mut journal = Journal::new();
    let _ = journal.side(&Outcome::Ok);
    journal.course.pass_over(&TABLE, ());
    journal.begin();
    assert_eq!(journal.words()[1..], ["1 act take ok", "2 act look ok", "3 act choose begun"]);
    assert_eq!(journal.lines[2].attempt, 0);
    assert_eq!(journal.resumed(), journal.course);
}

#[test]
fn an_accepted_saga_goes_on_with_its_second_step() {
    let mut course: Course<Tiny> = Course::accepted(&TABLE, 7, ());
    assert!(course.is_new());
    let commit = course.begin(&TABLE, ());
    let lines: Vec<(i64, &str, Event, i64)> = commit.lines.iter().map(|line| (line.seq, line.step, line.event, line.attempt)).collect();
    assert_eq!(lines, [(1, "take", Event::Ok, 7), (2, "look", Event::Begun, 0)]);
    assert!(commit.begins && !commit.ends && commit.heeds_cancellation);
    assert!(!course.is_new());
}

#[test]
fn a_wish_in_the_commit_of_a_beginning_omits_it() {
    let mut journal = Journal::new();
    let _ = journal.side(&Outcome::Ok);
    let mut commit = journal.course.begin(&TABLE, ());
    // The store has seen the wish, and writes no beginning.
    commit.lines.pop();
    journal.write(commit);
    journal.course.begun(true);
    journal.course.turn_back(&TABLE, "nobody wants it", ());
    assert_eq!(journal.course.at_hand(&TABLE).map(|(step, side)| (step.name, side)), Some(("take", Side::Undo)));
    journal.begin();
    assert_eq!(journal.words()[1..], ["1 act take ok", "2 act look cancelled", "3 undo take begun"]);
    assert_eq!(journal.resumed(), journal.course);
}

#[test]
fn no_commit_past_the_pivot_looks_for_a_wish() {
    let mut journal = Journal::new();
    for _ in 0..7 {
        assert!(journal.course.rest(&TABLE).heeds_cancellation);
        let _ = journal.side(&Outcome::Ok);
    }
    assert!(!journal.course.rest(&TABLE).heeds_cancellation);
    assert!(!journal.course.begin(&TABLE, ()).heeds_cancellation);
}

#[test]
fn a_clean_up_that_is_owed_costs_no_service() {
    let mut journal = Journal::new();
    for _ in 0..9 {
        let _ = journal.side(&Outcome::Ok);
    }
    let last = (0..TRIES_BEFORE_DEBT).map(|_| journal.side(&unknown())).last().unwrap();
    let seq = journal.lines.last().unwrap().seq + 1;
    let owed = Owed { seq, step: "tidy", side: Side::Act, reason: "silence".into() };
    assert_eq!(last, Consequences { owed: Some(owed), lost: None });
    let commit = journal.course.end();
    assert_eq!((commit.state, commit.ends, commit.lines.len()), (State::Done, true, 1));
}

#[test]
fn a_service_is_lost_until_its_undo_is_paid() {
    let mut journal = Journal::new();
    for _ in 0..4 {
        let _ = journal.side(&Outcome::Ok);
    }
    // The claim is refused: its own undo, then that of the step before it, on which the service depends.
    let _ = journal.side(&Outcome::Refused("full".into()));
    let _ = journal.side(&Outcome::Ok);
    let last = (0..TRIES_BEFORE_DEBT).map(|_| journal.side(&unknown())).last().unwrap();
    assert_eq!((last.owed.map(|owed| (owed.step, owed.side)), last.lost), (Some(("reserve", Side::Undo)), Some(Lost::UntilPaid)));
}

#[test]
fn a_service_without_an_undo_is_lost_for_good() {
    const STEPS: &[Step<Tiny>] = &[
        Step::reversible("take", work!(Tiny, count), Undo::By(work!(Tiny, count))),
        Step::reversible("stop", work!(Tiny, count), Undo::Nothing("it is gone")).serving(),
    ];
    let table = Table::of(STEPS);
    let mut course = Course::accepted(&table, 1, ());
    let _ = course.begin(&table, ());
    course.begun(false);
    let refused = course.ended(&table, 2, &Outcome::Refused("no".into()), ());
    assert_eq!(refused, Consequences { owed: None, lost: Some(Lost::ForGood) });
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let one = prop_oneof![
        6 => Just(Outcome::Ok),
        1 => Just(Outcome::Refused("no".into())),
        1 => Just(Outcome::NextCandidate("full".into())),
        1 => Just(unknown()),
        1 => Just(Outcome::GoForward("it runs".into())),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    /// A runner may die after any commit: its successor has the same course.
    #[test]
    fn a_successor_goes_on_from_any_commit(sequence in outcomes()) {
        let mut journal = Journal::new();
        for outcome in &sequence {
            if journal.course.at_hand(&TABLE).is_none() {
                break;
            }
            journal.begin();
            prop_assert_eq!(journal.resumed(), journal.course.clone());
            let _ = journal.course.ended(&TABLE, journal.attempt, outcome, ());
            let shown = journal.course.show();
            journal.write(shown);
            prop_assert_eq!(journal.resumed(), journal.course.clone());
        }
        let numbers: Vec<i64> = journal.lines.iter().map(|line| line.seq).collect();
        prop_assert_eq!(numbers, (0..journal.lines.len() as i64).collect::<Vec<_>>());
    }
}
