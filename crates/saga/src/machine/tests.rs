//! Laws of the machine over any sequence of outcomes.

use proptest::prelude::*;

use super::*;
use crate::fixture::{STEPS, TABLE, Tiny, after, count};
use crate::step::Step;
use crate::work;

fn no(why: &str) -> Outcome {
    Outcome::Refused(why.into())
}

/// The undos that follow a wish to cancel, and the machine at its end.
fn cancelled(mut machine: Machine) -> (Vec<&'static str>, Machine) {
    machine.apply(&TABLE, &Outcome::Cancelled("it makes room".into()));
    let mut undone = Vec::new();
    while let Some((step, Side::Undo)) = machine.at_hand() {
        undone.push(STEPS[step].name);
        machine.apply(&TABLE, &Outcome::Ok);
    }
    (undone, machine)
}

#[test]
fn a_cancelled_saga_undoes_what_has_begun_and_no_more() {
    let (undone, machine) = cancelled(after(4));
    assert_eq!(undone, ["reserve", "choose", "take"]);
    assert_eq!((machine.cursor, machine.error.as_deref()), (Cursor::Unwound, Some("it makes room")));
    let mut in_doubt = after(4);
    in_doubt.begin();
    assert_eq!(cancelled(in_doubt).0, ["claim", "reserve", "choose", "take"], "what may have happened counts as begun");
}

#[test]
fn a_cancelled_saga_looks_for_no_other_candidate() {
    let mut machine = after(5);
    machine.begin();
    machine.apply(&TABLE, &Outcome::NextCandidate("full".into()));
    assert_eq!(machine.cursor, Cursor::Undo(5, Back::NextCandidate));
    let (undone, machine) = cancelled(machine);
    assert_eq!((undone.last(), machine.cursor), (Some(&"take"), Cursor::Unwound));
}

#[test]
fn past_the_pivot_or_in_doubt_of_it_a_saga_is_not_cancelled() {
    assert_eq!(cancelled(after(6)).1.cursor, Cursor::Unwound, "the pivot has not begun");
    let mut in_doubt = after(6);
    in_doubt.begin();
    for machine in [in_doubt, after(7), after(9)] {
        assert!(!machine.may_turn_back(&TABLE));
        assert_eq!(cancelled(machine.clone()).1, machine);
    }
}

#[test]
fn a_step_without_a_way_back_keeps_a_saga_going() {
    const STEPS: &[Step<Tiny>] = &[
        Step::reversible("take", work!(Tiny, count), Undo::By(work!(Tiny, count))),
        Step::reversible("stop", work!(Tiny, count), Undo::Nothing("it is gone")).no_way_back(),
        Step::reversible("start", work!(Tiny, count), Undo::Nothing("it is gone")),
    ];
    let table = Table::of(STEPS);
    let mut machine = after(1);
    assert!(machine.may_turn_back(&table));
    machine.begin();
    assert!(!machine.may_turn_back(&table));
    machine.apply(&table, &Outcome::Ok);
    assert!(!machine.may_turn_back(&table));
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let one = prop_oneof![
        6 => Just(Outcome::Ok),
        1 => Just(no("no")),
        1 => Just(Outcome::NextCandidate("full".into())),
        1 => Just(Outcome::Unknown("silence".into())),
        1 => Just(Outcome::TimedOut("late".into())),
        1 => Just(Outcome::Cancelled("it makes room".into())),
    ];
    prop::collection::vec(one, 0..200)
}

#[test]
fn all_ok_is_done() {
    let mut machine = Machine::new();
    for _ in STEPS {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    assert_eq!(machine.cursor, Cursor::Done);
}

#[test]
fn a_failure_before_the_pivot_undoes_begun_steps_in_reverse() {
    let mut machine = Machine::new();
    for _ in 0..5 {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    machine.apply(&TABLE, &no("disk full"));
    let mut undone = Vec::new();
    while let Some((step, Side::Undo)) = machine.at_hand() {
        undone.push(STEPS[step].name);
        machine.apply(&TABLE, &Outcome::Ok);
    }
    assert_eq!(undone, ["copy", "claim", "reserve", "choose", "take"]);
    assert_eq!((machine.cursor, machine.error.as_deref()), (Cursor::Unwound, Some("disk full")));
}

#[test]
fn a_refused_candidate_leads_back_to_the_choice() {
    let mut machine = Machine::new();
    for _ in 0..4 {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    machine.apply(&TABLE, &Outcome::NextCandidate("no room".into()));
    for expected in ["claim", "reserve", "choose"] {
        let (step, side) = machine.at_hand().unwrap();
        assert_eq!((STEPS[step].name, side), (expected, Side::Undo));
        machine.apply(&TABLE, &Outcome::Ok);
    }
    assert_eq!(machine.cursor, Cursor::Act(2));
    assert_eq!(machine.error, None);
}

#[test]
fn a_dead_candidate_is_owed_and_the_next_is_tried() {
    let mut machine = Machine::new();
    for _ in 0..4 {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    machine.apply(&TABLE, &Outcome::NextCandidate("dead".into()));
    let mut owed = Vec::new();
    for _ in 0..TRIES_BEFORE_DEBT {
        owed.push(machine.apply(&TABLE, &Outcome::Unknown("dead".into())));
    }
    assert_eq!(owed.last(), Some(&Effect::Owe(4, Side::Undo)));
    assert_eq!(machine.cursor, Cursor::Undo(3, Back::NextCandidate));
}

#[test]
fn refused_start_past_the_pivot_goes_back_by_its_undo() {
    let mut machine = Machine::new();
    for _ in 0..7 {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    machine.apply(&TABLE, &no("spawn failed"));
    assert_eq!(machine.cursor, Cursor::Undo(7, Back::Unwind));
    // The target cannot be reached: nothing may be skipped, so the saga tries forward again.
    machine.apply(&TABLE, &Outcome::Unknown("silence".into()));
    assert_eq!(machine.cursor, Cursor::Act(7));
    machine.apply(&TABLE, &no("spawn failed"));
    // The participant says that it has started after all.
    machine.apply(&TABLE, &Outcome::GoForward("it runs".into()));
    assert_eq!((machine.cursor, machine.error.clone()), (Cursor::Act(8), None));
}

#[test]
fn an_owed_clean_up_does_not_hold_the_saga() {
    let mut machine = Machine::new();
    for _ in 0..9 {
        machine.apply(&TABLE, &Outcome::Ok);
    }
    let effects: Vec<Effect> = (0..TRIES_BEFORE_DEBT).map(|_| machine.apply(&TABLE, &Outcome::Unknown("silence".into()))).collect();
    assert_eq!(effects.last(), Some(&Effect::Owe(9, Side::Act)));
    assert_eq!(machine.cursor, Cursor::Done);
}

proptest! {
    /// In every sequence of outcomes, undo runs downward only and only over begun steps, nothing before the pivot is undone after a
    /// step past it has succeeded without a hand-back, and once everything answers the saga comes to rest.
    #[test]
    fn a_saga_always_comes_to_rest(sequence in outcomes()) {
        let mut machine = Machine::new();
        let mut begun = 0;
        for outcome in &sequence {
            let Some((step, side)) = machine.at_hand() else { break };
            match side {
                Side::Act => begun = begun.max(step),
                Side::Undo => {
                    prop_assert!(step <= begun, "undo of {} which never began", STEPS[step].name);
                    prop_assert!(STEPS[step].undo.work().is_some());
                }
            }
            if !matches!(outcome, Outcome::Cancelled(_)) {
                machine.begin();
            }
            machine.apply(&TABLE, outcome);
        }
        for _ in 0..STEPS.len() * 2 {
            machine.apply(&TABLE, &Outcome::Ok);
        }
        prop_assert!(matches!(machine.cursor, Cursor::Done | Cursor::Unwound));
        prop_assert_eq!(machine.cursor == Cursor::Unwound, machine.error.is_some());
    }

    /// Every prefix of a journal can be resumed: the replay of what was applied is the same machine.
    #[test]
    fn a_replayed_journal_is_the_same_machine(sequence in outcomes()) {
        let mut machine = Machine::new();
        let mut replayed = Machine::new();
        for outcome in &sequence {
            if machine.at_hand().is_none() {
                break;
            }
            machine.apply(&TABLE, outcome);
            let parsed = Outcome::of(outcome.event(), outcome.error()).unwrap();
            replayed.apply(&TABLE, &parsed);
            prop_assert_eq!(&machine, &replayed);
        }
    }
}
