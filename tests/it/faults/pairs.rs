//! The pairs: a second fault while the first is undone, and a second fault after the saga has recovered from the first.

use cellshift::chaos::point::{Moment, StepFault};
use cellshift::saga::step::{Class, Table};

use super::plan::{self, Case, End, FOR_EVER, First, Lead};

/// Returns all pairs of a saga.
pub fn pairs(table: &Table) -> Vec<Case> {
    let mut cases = while_undone(table);
    cases.extend(while_undone_with_the_act_to_come(table));
    cases.extend(after_recovery(table));
    cases
}

/// Returns failed acts with a fault in any of the following undos, and repeated deaths.
fn while_undone(table: &Table) -> Vec<Case> {
    let mut cases = Vec::new();
    for (position, step) in table.steps.iter().enumerate().skip(1) {
        let case = |moment, fault, times, undo| Case { step: step.name.as_str(), moment, fault, times, undo, first: None };
        cases.push(case(Moment::BeforeEffect, StepFault::KillActor, 2, None));
        cases.push(case(Moment::AfterEffect, StepFault::KillActor, 2, None));
        if step.undo.work().is_none() || step.class == Class::Forward {
            continue;
        }
        let later = table.steps[position..].iter().filter(|later| plan::may_fail_with_effect(later) && later.class != Class::Forward);
        for lead in later.map(|later| Some(Lead::Failed(later.name.as_str()))) {
            cases.push(case(Moment::BeforeEffect, StepFault::LoseReply, 1, lead));
            cases.push(case(Moment::BeforeEffect, StepFault::CompleteLate, 1, lead));
            cases.push(case(Moment::BeforeEffect, StepFault::Refuse, FOR_EVER, lead));
            cases.push(case(Moment::AfterEffect, StepFault::KillActor, 1, lead));
            cases.push(case(Moment::AfterEffect, StepFault::Freeze, 1, lead));
        }
    }
    cases
}

/// Returns acts that hang and take effect after the saga's end, with a fault in any undo before that.
fn while_undone_with_the_act_to_come(table: &Table) -> Vec<Case> {
    let hung = |step| Case { step, moment: Moment::BeforeEffect, fault: StepFault::CompleteAfterEnd, times: 1, undo: None, first: None };
    let mut cases = Vec::new();
    for (position, step) in table.steps.iter().enumerate().skip(1) {
        if step.undo.work().is_none() || step.class == Class::Forward {
            continue;
        }
        let later = table.steps[position..].iter().filter(|later| plan::demanded(table, &hung(later.name.as_str())) == End::Unwound);
        for lead in later.map(|later| Some(Lead::Late(later.name.as_str()))) {
            let case = |moment, fault, times| Case { step: step.name.as_str(), moment, fault, times, undo: lead, first: None };
            cases.push(case(Moment::BeforeEffect, StepFault::Refuse, FOR_EVER));
            cases.push(case(Moment::AfterEffect, StepFault::KillActor, 1));
            cases.push(case(Moment::AfterEffect, StepFault::Freeze, 1));
        }
    }
    cases
}

/// Returns faults from which the saga recovers, at each act, with a second fault at this act again and at later acts.
///
/// At each later act only if the first fault leaves something behind: a stopped process (its successor has only files), or an effect still
/// to come. A first fault that leaves only an attempt in the journal gets its second at this act and at the next: after that, journal,
/// context and participants are as in a run without the fault. A death between an effect and its journal line stands for deaths at the
/// act's other moments, which leave less.
fn after_recovery(table: &Table) -> Vec<Case> {
    let firsts = [
        (Moment::AfterEffect, StepFault::KillActor, 2),
        (Moment::AfterEffect, StepFault::Freeze, usize::MAX),
        (Moment::BeforeEffect, StepFault::LoseReply, 2),
        (Moment::BeforeEffect, StepFault::CompleteLate, 2),
        (Moment::BeforeEffect, StepFault::CompleteAfterEnd, usize::MAX),
    ];
    let seconds = [
        (Moment::BeforeEffect, StepFault::Refuse),
        (Moment::BeforeEffect, StepFault::LoseReply),
        (Moment::AfterEffect, StepFault::KillActor),
        (Moment::AfterEffect, StepFault::Freeze),
    ];
    let mut cases = Vec::new();
    for (position, step) in table.steps.iter().enumerate() {
        for (moment, fault, acts) in firsts {
            let alone = Case { step: step.name.as_str(), moment, fault, times: 1, undo: None, first: None };
            if plan::demanded(table, &alone) != End::Done {
                continue;
            }
            let first = Some(First { step: step.name.as_str(), moment, fault });
            for later in table.steps[position..].iter().take(acts) {
                cases.extend(seconds.map(|(moment, fault)| Case { step: later.name.as_str(), moment, fault, times: 1, undo: None, first }));
            }
        }
    }
    cases
}

#[test]
fn a_pair_is_a_second_fault_in_an_undo_or_after_a_recovery() {
    let (_, table) = cellshift::saga::tables::ALL.iter().find(|(name, _)| *name == "cross_cell_resize").expect("the saga");
    let all = pairs(table);
    let after = |first: &str, second: &str| {
        all.iter().filter(|case| case.first.is_some_and(|before| before.step == first) && case.step == second).count()
    };
    assert_eq!(after("claim_at_target", "take_ownership"), 4, "the process was stopped, four second faults");
    assert_eq!(after("claim_at_target", "record_target_choice"), 8, "or its actor died");
    assert_eq!(after("take_ownership", "take_ownership"), 20, "and what a pivot tries again");
    assert_eq!(after("take_ownership", "claim_at_target"), 0, "it does not go back there");
    assert!(all.iter().any(|case| case.undo == Some(Lead::Late("prepare_at_target")) && case.step == "claim_at_target"));
}
