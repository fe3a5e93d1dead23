//! What can go wrong at a step, as cases of the matrix and as the plan that makes each of them happen.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cellshift::chaos::point::{Fault, FaultPlan, Moment, Point};
use cellshift::saga::step::{Class, Step, Table};
use cellshift::saga::step_name::StepName;
use tokio::sync::Semaphore;

/// Tries after which a clean-up or an undo is owed, and some more.
pub const FOR_EVER: u32 = 8;

/// What brings a saga to an undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// The act of this step is refused.
    Refused(&'static str),
    /// The act of this step has its effect and then says that it failed.
    Failed(&'static str),
    /// The first step is done, the request's caller is told that nobody knows, and the successor's try is refused.
    Forgotten(&'static str),
    /// The first step hangs, the successor's try is refused, and it comes when all is over.
    Hung(&'static str),
    /// The act of this step hangs, and comes when all is over.
    Late(&'static str),
}

impl Lead {
    /// The step whose act does not succeed.
    pub fn step(self) -> &'static str {
        match self {
            Lead::Refused(step) | Lead::Failed(step) | Lead::Forgotten(step) | Lead::Hung(step) | Lead::Late(step) => step,
        }
    }

    /// What it makes of an act, which it has met so often before.
    fn at(self, moment: Moment, before: u32) -> Fault {
        match (self, moment) {
            (Lead::Refused(_), Moment::BeforeEffect) | (Lead::Failed(_), Moment::AfterEffect) => Fault::Refuse,
            (Lead::Forgotten(_), Moment::BeforeEffect) if before == 0 => Fault::LoseReply,
            (Lead::Hung(_), Moment::BeforeEffect) if before == 0 => Fault::CompleteAfterEnd,
            (Lead::Late(_), Moment::BeforeEffect) => Fault::CompleteAfterEnd,
            (Lead::Forgotten(_) | Lead::Hung(_), Moment::BeforeEffect) => Fault::Refuse,
            _ => Fault::None,
        }
    }
}

/// A fault that an act meets once, and that the saga recovers from, before it meets another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct First {
    pub step: &'static str,
    pub moment: Moment,
    pub fault: Fault,
}

/// Which fault of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    First,
    /// The case's own, or its lead's.
    Own,
}

/// One cell of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub step: &'static str,
    pub moment: Moment,
    pub fault: Fault,
    /// How often it happens.
    pub times: u32,
    /// It is the step's undo that meets it, and this is how the saga comes there; none when it is the act.
    pub undo: Option<Lead>,
    /// What happened before, in a pair of faults at acts.
    pub first: Option<First>,
}

fn is_late(fault: Fault) -> bool {
    matches!(fault, Fault::CompleteLate | Fault::CompleteAfterEnd)
}

impl Case {
    /// What stops the process, in order.
    pub fn stops(&self) -> Vec<Which> {
        let first = self.first.filter(|first| first.fault == Fault::Freeze).map(|_| Which::First);
        first.into_iter().chain((self.fault == Fault::Freeze).then_some(Which::Own)).collect()
    }

    /// What of it happens after the saga's end, or while it goes on or is undone. What a process had still to do when it was stopped
    /// does not happen.
    pub fn comes_late(&self) -> Vec<Which> {
        let stopped = self.fault == Fault::Freeze;
        let first = self.first.filter(|first| is_late(first.fault) && !stopped).map(|_| Which::First);
        let by_lead = self.comes_late_by_its_lead() || (matches!(self.undo, Some(Lead::Late(_))) && !stopped);
        first.into_iter().chain((is_late(self.fault) || by_lead).then_some(Which::Own)).collect()
    }

    /// The operation was never accepted: what is undone is a beginning of which nobody knew.
    pub fn comes_late_by_its_lead(&self) -> bool {
        matches!(self.undo, Some(Lead::Hung(_)))
    }

    /// The same, where the beginning hangs and the successor's try is refused.
    pub fn was_never_accepted(&self, table: &Table) -> bool {
        let begins_late = self.first.is_some_and(|first| first.step == table.steps[0].name.as_str() && is_late(first.fault));
        let refused = self.step == table.steps[0].name.as_str() && self.undo.is_none() && self.fault == Fault::Refuse;
        self.comes_late_by_its_lead() || (begins_late && refused)
    }

    /// The act that does not succeed; none when the fault meets an act and that may succeed all the same.
    pub fn failing(&self) -> &'static str {
        self.undo.map_or(self.step, Lead::step)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.undo.is_some() { "undo" } else { "act" };
        write!(f, "{}/{side}/{:?}/{:?}/{}", self.step, self.moment, self.fault, self.times)?;
        self.undo.map_or(Ok(()), |lead| write!(f, "/{lead:?}"))?;
        self.first.map_or(Ok(()), |first| write!(f, " after {}/{:?}/{:?}", first.step, first.moment, first.fault))
    }
}

/// Every single fault of a saga.
pub fn cases(table: &Table) -> Vec<Case> {
    let mut cases = Vec::new();
    for (position, step) in table.steps.iter().enumerate() {
        cases.extend(of_act(position, step));
        if step.undo.work().is_some() {
            cases.extend(of_undo(step, comes_back(table, position)));
        }
    }
    cases
}

/// How the saga comes back to the undo of this step: at best from a later act, so that the step itself is done.
fn comes_back(table: &Table, position: usize) -> Lead {
    let step = &table.steps[position];
    if step.class == Class::Forward {
        return Lead::Refused(step.name.as_str());
    }
    let can = |step: &&Step| matches!(step.class, Class::Reversible | Class::Pivot) || step.undo.work().is_some();
    match table.steps[position + 1..].iter().find(can) {
        Some(later) => Lead::Refused(later.name.as_str()),
        None if position == 0 => Lead::Forgotten(step.name.as_str()),
        None => Lead::Failed(step.name.as_str()),
    }
}

/// It may have its effect and say that it failed: then its undo finds the effect.
pub fn may_fail_with_effect(step: &Step) -> bool {
    step.undo.work().is_some()
}

fn of_act(position: usize, step: &Step) -> Vec<Case> {
    let case = |moment, fault, times| Case { step: step.name.as_str(), moment, fault, times, undo: None, first: None };
    let mut cases = of_side(case);
    if step.class == Class::Cleanup {
        cases.extend(for_ever(case));
    }
    // The first step is one commit: it fails or it has its effect.
    if position > 0 && may_fail_with_effect(step) {
        cases.push(case(Moment::AfterEffect, Fault::Refuse, 1));
    }
    cases
}

fn of_undo(step: &Step, lead: Lead) -> Vec<Case> {
    let case = |moment, fault, times| Case { step: step.name.as_str(), moment, fault, times, undo: Some(lead), first: None };
    let mut cases = of_side(case);
    cases.extend(for_ever(case));
    // Besides: the first step's undo after a request that told nobody how it ended.
    if lead != Lead::Forgotten(step.name.as_str()) && step.name.as_str() == "accept" {
        cases.push(Case { undo: Some(Lead::Forgotten(step.name.as_str())), ..case(Moment::BeforeEffect, Fault::LoseReply, 1) });
    }
    if step.name.as_str() == "accept" {
        cases.push(Case { undo: Some(Lead::Hung(step.name.as_str())), ..case(Moment::BeforeEffect, Fault::Repeat, 1) });
    }
    cases
}

/// What may meet either side once.
fn of_side(case: impl Fn(Moment, Fault, u32) -> Case) -> Vec<Case> {
    let mut cases: Vec<Case> = [Fault::Refuse, Fault::LoseReply, Fault::Repeat, Fault::CompleteLate, Fault::CompleteAfterEnd]
        .map(|fault| case(Moment::BeforeEffect, fault, 1))
        .into();
    for moment in [Moment::BeforeEffect, Moment::AfterEffect, Moment::AfterJournal] {
        cases.push(case(moment, Fault::KillActor, 1));
        cases.push(case(moment, Fault::Freeze, 1));
    }
    cases
}

/// What makes a side that may be owed a debt.
fn for_ever(case: impl Fn(Moment, Fault, u32) -> Case) -> [Case; 2] {
    [Fault::Refuse, Fault::LoseReply].map(|fault| case(Moment::BeforeEffect, fault, FOR_EVER))
}

/// A case that is armed.
pub struct Armed {
    case: Case,
    left: AtomicU32,
    /// How often the lead has been met.
    led: AtomicU32,
    first_met: AtomicBool,
    first_told: AtomicBool,
    first_over: Semaphore,
    over: Semaphore,
}

impl Armed {
    pub fn new(case: Case) -> Armed {
        let (left, led) = (AtomicU32::new(case.times), AtomicU32::new(0));
        let (first_met, first_told) = (AtomicBool::new(false), AtomicBool::new(false));
        Armed { case, left, led, first_met, first_told, first_over: Semaphore::new(0), over: Semaphore::new(0) }
    }

    /// The fault has happened as often as it was to, or at least once when that is for ever.
    pub fn happened(&self) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        let first = self.case.first.is_none() || self.first_met.load(Ordering::SeqCst);
        first && if self.case.times == FOR_EVER { left < FOR_EVER } else { left == 0 }
    }

    /// Waits until a fault has run its course: the process stands still, the late effect has ended.
    pub async fn over(&self, which: Which) {
        let over = if which == Which::First { &self.first_over } else { &self.over };
        over.acquire().await.expect("it is never closed").forget();
    }

    /// Where the first fault is.
    fn is_first(&self, point: &Point<'_>) -> bool {
        let here = |first: First| point.side == "act" && point.step == first.step && point.moment == first.moment;
        self.case.first.is_some_and(here)
    }

    /// What the first fault does here has an end of its own.
    fn first_is_over(&self, point: &Point<'_>) -> bool {
        let ends = |first: First| is_late(first.fault) || first.fault == Fault::Freeze;
        self.is_first(point) && self.case.first.is_some_and(ends)
    }

    fn is_here(&self, point: &Point<'_>) -> bool {
        point.step == self.case.step && (point.side == "undo") == self.case.undo.is_some() && point.moment == self.case.moment
    }

    /// The lead's own late effect.
    fn is_late_lead(&self, point: &Point<'_>) -> bool {
        matches!(self.case.undo, Some(Lead::Hung(step) | Lead::Late(step)) if step == point.step) && point.side == "act"
    }
}

impl FaultPlan for Armed {
    fn at(&self, point: &Point<'_>) -> Fault {
        if let Some(first) = self.case.first.filter(|_| !self.first_met.load(Ordering::SeqCst)) {
            let here = self.is_first(point);
            self.first_met.store(here, Ordering::SeqCst);
            return if here { first.fault } else { Fault::None };
        }
        if self.is_here(point) {
            let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if spent.is_ok() {
                return self.case.fault;
            }
        }
        match self.case.undo {
            Some(lead) if point.side == "act" && point.step == lead.step() => {
                let before = if point.moment == Moment::BeforeEffect { self.led.fetch_add(1, Ordering::SeqCst) } else { 0 };
                lead.at(point.moment, before)
            }
            _ => Fault::None,
        }
    }

    fn over(&self, point: &Point<'_>) {
        let own = self.is_late_lead(point) || (self.is_here(point) && !self.case.comes_late_by_its_lead());
        // Where both are at one point, each is over once, in whichever order.
        if self.first_is_over(point) && !(own && self.first_told.swap(true, Ordering::SeqCst)) {
            self.first_over.add_permits(1);
        } else if own {
            self.over.add_permits(1);
        }
    }
}

/// How a saga may end when this went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Done,
    Unwound,
    Either,
    /// The caller is told so, and nothing of it is left.
    NeverBegun,
}

/// The end that INVARIANTS S1 to S9 demand of the case.
pub fn demanded(table: &Table, case: &Case) -> End {
    let position = table.position(StepName::parse(case.step).expect("a step")).expect("a step of the table");
    let step = &table.steps[position];
    let with_undo = step.undo.work().is_some();
    // Whether a side in doubt that is refused then is undone or tried again is for its class to say; and nobody waits any more for the
    // first step when it is tried again.
    let again = case.first.is_some_and(|first| first.step == case.step);
    if again && (case.fault == Fault::Refuse || (position == 0 && case.fault == Fault::LoseReply)) {
        return End::Either;
    }
    if case.undo.is_some() {
        // Past the pivot an undo that is not sure of the target goes forward again.
        return if step.class == Class::Forward { End::Either } else { End::Unwound };
    }
    match (step.class, case.fault) {
        (_, Fault::Refuse) if position == 0 => End::NeverBegun,
        // Whoever asked may not know, but the successor performs it again.
        (_, _) if position == 0 => End::Done,
        (_, Fault::KillActor | Fault::Freeze | Fault::Repeat) => End::Done,
        (Class::Cleanup, _) => End::Done,
        // Its effect is there: the target says that the guest runs.
        (Class::Forward, Fault::Refuse) if case.moment == Moment::AfterEffect => End::Either,
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

/// What the caller of the request must be told; none when that depends.
pub fn answer(table: &Table, case: &Case) -> Option<std::ops::Range<u16>> {
    let first = table.steps[0].name.as_str();
    if matches!(case.undo, Some(Lead::Forgotten(_) | Lead::Hung(_))) {
        return Some(503..504);
    }
    if case.first.is_some_and(|before| before.step == first) {
        return None;
    }
    if case.undo.is_some() || case.step != first || case.moment == Moment::AfterJournal || case.fault == Fault::Repeat {
        return Some(200..300);
    }
    match case.fault {
        Fault::Refuse => Some(409..410),
        Fault::Freeze => None,
        _ => Some(503..504),
    }
}
