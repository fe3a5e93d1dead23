//! What can go wrong at a step, as cases of the matrix and as the plan that makes each of them happen.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use cellshift::chaos::point::{Fault, FaultPlan, Moment, Point};
use cellshift::saga::step::{Class, Step, Table};

/// Tries after which a clean-up or an undo is owed, and some more.
const FOR_EVER: u32 = 8;

/// One cell of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub step: &'static str,
    /// Of the step's undo; else of its act.
    pub undo: bool,
    pub moment: Moment,
    pub fault: Fault,
    /// How often it happens.
    pub times: u32,
    /// The later act that is refused, so that the saga comes back to the undo.
    pub refused: Option<&'static str>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.undo { "undo" } else { "act" };
        write!(f, "{}/{side}/{:?}/{:?}/{}", self.step, self.moment, self.fault, self.times)
    }
}

/// Every case of a saga. The first step's act is performed within the request; what can go wrong there is not here.
pub fn cases(table: &Table) -> Vec<Case> {
    let mut cases = Vec::new();
    for (position, step) in table.steps.iter().enumerate() {
        if position > 0 {
            cases.extend(of_side(step, false, None));
        }
        if step.undo.work().is_some()
            && let Some(refused) = comes_back(table, position)
        {
            cases.extend(of_side(step, true, Some(refused)));
        }
    }
    cases
}

/// The act whose refusal leads back to the undo of a step that is done.
fn comes_back(table: &Table, position: usize) -> Option<&'static str> {
    let can = |step: &&Step| matches!(step.class, Class::Reversible | Class::Pivot) || step.undo.work().is_some();
    if table.steps[position].class == Class::Forward {
        return Some(table.steps[position].name);
    }
    table.steps[position + 1..].iter().find(can).map(|step| step.name)
}

fn of_side(step: &Step, undo: bool, refused: Option<&'static str>) -> Vec<Case> {
    let case = |moment, fault, times| Case { step: step.name, undo, moment, fault, times, refused };
    let mut cases = vec![
        case(Moment::BeforeEffect, Fault::Refuse, 1),
        case(Moment::BeforeEffect, Fault::CompleteLate, 1),
        case(Moment::BeforeEffect, Fault::CompleteAfterEnd, 1),
        case(Moment::BeforeEffect, Fault::LoseReply, 1),
    ];
    for moment in [Moment::BeforeEffect, Moment::AfterEffect, Moment::AfterJournal] {
        cases.push(case(moment, Fault::KillActor, 1));
        cases.push(case(moment, Fault::Freeze, 1));
    }
    if undo || step.class == Class::Cleanup {
        cases.push(case(Moment::BeforeEffect, Fault::Refuse, FOR_EVER));
        cases.push(case(Moment::BeforeEffect, Fault::LoseReply, FOR_EVER));
    }
    cases
}

/// A case that is armed.
pub struct Armed {
    case: Case,
    left: AtomicU32,
}

impl Armed {
    pub fn new(case: Case) -> Armed {
        Armed { case, left: AtomicU32::new(case.times) }
    }

    /// The fault has happened at least once.
    pub fn happened(&self) -> bool {
        self.left.load(Ordering::SeqCst) < self.case.times
    }
}

impl FaultPlan for Armed {
    fn at(&self, point: &Point<'_>) -> Fault {
        let is_act = point.side == "act";
        if point.step == self.case.step && is_act != self.case.undo && point.moment == self.case.moment {
            let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if spent.is_ok() {
                return self.case.fault;
            }
        }
        let refused = is_act && point.moment == Moment::BeforeEffect && self.case.refused == Some(point.step);
        if refused { Fault::Refuse } else { Fault::None }
    }
}

/// How a saga may end when this went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Done,
    Unwound,
    Either,
}

/// What the rules of architecture §5 say of the case.
pub fn demanded(table: &Table, case: &Case) -> End {
    let step = &table.steps[table.position(case.step).expect("a step of the table")];
    let with_undo = step.undo.work().is_some();
    if case.undo {
        // Past the pivot an undo that is not sure of the target goes forward again.
        return if step.class == Class::Forward { End::Either } else { End::Unwound };
    }
    match (step.class, case.fault) {
        (_, Fault::KillActor | Fault::Freeze) => End::Done,
        (Class::Cleanup, _) => End::Done,
        (Class::Forward, Fault::Refuse) if with_undo => End::Unwound,
        (Class::Forward, _) => End::Done,
        (Class::Pivot | Class::Reversible, Fault::Refuse) => End::Unwound,
        (Class::Pivot, _) => End::Done,
        (Class::Reversible, _) => {
            if step.tries > 1 {
                End::Done
            } else {
                End::Unwound
            }
        }
    }
}
