//! The faults of a step, as cases of the matrix and as the plan that makes them happen.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::saga::step::{Class, Step, Table};
use cellshift::saga::step_name::StepName;
use tokio::sync::Semaphore;

/// More tries than a clean-up or an undo gets before it is owed.
pub const FOR_EVER: u32 = 8;

/// The event that brings a saga to an undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// The act of this step is refused.
    Refused(&'static str),
    /// The act of this step takes effect and then reports failure.
    Failed(&'static str),
    /// The first step is done, the caller is told that the outcome is unknown, and the successor's try is refused.
    Forgotten(&'static str),
    /// The first step hangs, the successor's try is refused, and the step takes effect after the end.
    Hung(&'static str),
    /// The act of this step hangs, and takes effect after the end.
    Late(&'static str),
}

impl Lead {
    /// Returns the step whose act does not succeed.
    pub fn step(self) -> &'static str {
        match self {
            Lead::Refused(step) | Lead::Failed(step) | Lead::Forgotten(step) | Lead::Hung(step) | Lead::Late(step) => step,
        }
    }

    /// Returns the fault for an act that was met `before` times.
    fn at(self, moment: Moment, before: u32) -> StepFault {
        match (self, moment) {
            (Lead::Refused(_), Moment::BeforeEffect) | (Lead::Failed(_), Moment::AfterEffect) => StepFault::Refuse,
            (Lead::Forgotten(_), Moment::BeforeEffect) if before == 0 => StepFault::LoseReply,
            (Lead::Hung(_), Moment::BeforeEffect) if before == 0 => StepFault::CompleteAfterEnd,
            (Lead::Late(_), Moment::BeforeEffect) => StepFault::CompleteAfterEnd,
            (Lead::Forgotten(_) | Lead::Hung(_), Moment::BeforeEffect) => StepFault::Refuse,
            _ => StepFault::None,
        }
    }
}

/// A fault that an act meets once, and from which the saga recovers before the next fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct First {
    pub step: &'static str,
    pub moment: Moment,
    pub fault: StepFault,
}

/// Names a fault of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    First,
    /// The case's own fault, or its lead's.
    Own,
}

/// A cell of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub step: &'static str,
    pub moment: Moment,
    pub fault: StepFault,
    /// The number of times that the fault happens.
    pub times: u32,
    /// The lead to the undo that meets the fault; none if the act meets it.
    pub undo: Option<Lead>,
    /// The earlier fault, in a pair of faults at acts.
    pub first: Option<First>,
}

fn is_late(fault: StepFault) -> bool {
    matches!(fault, StepFault::CompleteLate | StepFault::CompleteAfterEnd)
}

impl Case {
    /// Returns the faults that stop the process, in order.
    pub fn stops(&self) -> Vec<Which> {
        let first = self.first.filter(|first| first.fault == StepFault::Freeze).map(|_| Which::First);
        first.into_iter().chain((self.fault == StepFault::Freeze).then_some(Which::Own)).collect()
    }

    /// Returns the faults that take effect after the saga's end, or while it goes on or unwinds. A stopped process does not do its
    /// remaining work.
    pub fn comes_late(&self) -> Vec<Which> {
        let stopped = self.fault == StepFault::Freeze;
        let first = self.first.filter(|first| is_late(first.fault) && !stopped).map(|_| Which::First);
        let by_lead = self.comes_late_by_its_lead() || (matches!(self.undo, Some(Lead::Late(_))) && !stopped);
        first.into_iter().chain((is_late(self.fault) || by_lead).then_some(Which::Own)).collect()
    }

    /// True if the operation was never accepted: the undo concerns a beginning that nobody knew of.
    pub fn comes_late_by_its_lead(&self) -> bool {
        matches!(self.undo, Some(Lead::Hung(_)))
    }

    /// True if the operation was never accepted, also because the beginning hangs and the successor's try is refused.
    pub fn was_never_accepted(&self, table: &Table) -> bool {
        let begins_late = self.first.is_some_and(|first| first.step == table.steps[0].name.as_str() && is_late(first.fault));
        let refused = self.step == table.steps[0].name.as_str() && self.undo.is_none() && self.fault == StepFault::Refuse;
        self.comes_late_by_its_lead() || (begins_late && refused)
    }

    /// Returns the act that does not succeed. If the fault meets an act, it may still succeed.
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

/// Returns all single faults of a saga.
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

/// Returns the lead to the undo of this step: preferably from a later act, so that the step itself is done.
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

/// True if the act may take effect and report failure, because its undo then finds the effect.
pub fn may_fail_with_effect(step: &Step) -> bool {
    step.undo.work().is_some()
}

fn of_act(position: usize, step: &Step) -> Vec<Case> {
    let case = |moment, fault, times| Case { step: step.name.as_str(), moment, fault, times, undo: None, first: None };
    let mut cases = of_side(case);
    if step.class == Class::Cleanup {
        cases.extend(for_ever(case));
    }
    // The first step is one commit: it fails or it takes effect.
    if position > 0 && may_fail_with_effect(step) {
        cases.push(case(Moment::AfterEffect, StepFault::Refuse, 1));
    }
    cases
}

fn of_undo(step: &Step, lead: Lead) -> Vec<Case> {
    let case = |moment, fault, times| Case { step: step.name.as_str(), moment, fault, times, undo: Some(lead), first: None };
    let mut cases = of_side(case);
    cases.extend(for_ever(case));
    // Besides: the first step's undo after a request that told nobody how it ended.
    if lead != Lead::Forgotten(step.name.as_str()) && step.name.as_str() == "accept" {
        cases.push(Case { undo: Some(Lead::Forgotten(step.name.as_str())), ..case(Moment::BeforeEffect, StepFault::LoseReply, 1) });
    }
    if step.name.as_str() == "accept" {
        cases.push(Case { undo: Some(Lead::Hung(step.name.as_str())), ..case(Moment::BeforeEffect, StepFault::Repeat, 1) });
    }
    cases
}

/// Returns the faults that may meet either side once.
fn of_side(case: impl Fn(Moment, StepFault, u32) -> Case) -> Vec<Case> {
    let mut cases: Vec<Case> =
        [StepFault::Refuse, StepFault::LoseReply, StepFault::Repeat, StepFault::CompleteLate, StepFault::CompleteAfterEnd]
            .map(|fault| case(Moment::BeforeEffect, fault, 1))
            .into();
    for moment in [Moment::BeforeEffect, Moment::AfterEffect, Moment::AfterJournal] {
        cases.push(case(moment, StepFault::KillActor, 1));
        cases.push(case(moment, StepFault::Freeze, 1));
    }
    cases
}

/// Returns the faults that turn a side into a debt.
fn for_ever(case: impl Fn(Moment, StepFault, u32) -> Case) -> [Case; 2] {
    [StepFault::Refuse, StepFault::LoseReply].map(|fault| case(Moment::BeforeEffect, fault, FOR_EVER))
}

/// An armed case.
pub struct Armed {
    case: Case,
    left: AtomicU32,
    /// The number of times that the lead was met.
    led: AtomicU32,
    first_met: AtomicBool,
    first_reported: AtomicBool,
    first_over: Semaphore,
    over: Semaphore,
}

impl Armed {
    pub fn new(case: Case) -> Armed {
        let (left, led) = (AtomicU32::new(case.times), AtomicU32::new(0));
        let (first_met, first_reported) = (AtomicBool::new(false), AtomicBool::new(false));
        Armed { case, left, led, first_met, first_reported, first_over: Semaphore::new(0), over: Semaphore::new(0) }
    }

    /// True if the fault has happened the given number of times, or at least once if it happens forever.
    pub fn happened(&self) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        let first = self.case.first.is_none() || self.first_met.load(Ordering::SeqCst);
        first && if self.case.times == FOR_EVER { left < FOR_EVER } else { left == 0 }
    }

    /// Waits until a fault is over: the process is frozen, or the late effect has ended.
    pub async fn over(&self, which: Which) {
        let over = if which == Which::First { &self.first_over } else { &self.over };
        over.acquire().await.expect("it is never closed").forget();
    }

    /// True at the point of the first fault.
    fn is_first(&self, point: &Point<'_>) -> bool {
        let here = |first: First| point.side == "act" && point.step == first.step && point.moment == first.moment;
        self.case.first.is_some_and(here)
    }

    /// True if the first fault's end is reported separately.
    fn first_is_over(&self, point: &Point<'_>) -> bool {
        let ends = |first: First| is_late(first.fault) || first.fault == StepFault::Freeze;
        self.is_first(point) && self.case.first.is_some_and(ends)
    }

    fn is_here(&self, point: &Point<'_>) -> bool {
        point.step == self.case.step && (point.side == "undo") == self.case.undo.is_some() && point.moment == self.case.moment
    }

    /// True for the lead's own late effect.
    fn is_late_lead(&self, point: &Point<'_>) -> bool {
        matches!(self.case.undo, Some(Lead::Hung(step) | Lead::Late(step)) if step == point.step) && point.side == "act"
    }
}

impl FaultPlan for Armed {
    fn at(&self, point: &Point<'_>) -> StepFault {
        if let Some(first) = self.case.first.filter(|_| !self.first_met.load(Ordering::SeqCst)) {
            let here = self.is_first(point);
            self.first_met.store(here, Ordering::SeqCst);
            return if here { first.fault } else { StepFault::None };
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
            _ => StepFault::None,
        }
    }

    fn over(&self, point: &Point<'_>) {
        let own = self.is_late_lead(point) || (self.is_here(point) && !self.case.comes_late_by_its_lead());
        // If both are at one point, each is over once, in any order.
        if self.first_is_over(point) && !(own && self.first_reported.swap(true, Ordering::SeqCst)) {
            self.first_over.add_permits(1);
        } else if own {
            self.over.add_permits(1);
        }
    }
}

/// The permitted ends of a saga after a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Done,
    Unwound,
    Either,
    /// The caller is told, and nothing is left.
    NeverBegun,
}

/// Returns the end that INVARIANTS S1 to S9 demand.
pub fn demanded(table: &Table, case: &Case) -> End {
    let position = table.position(StepName::parse(case.step).expect("a step")).expect("a step of the table");
    let step = &table.steps[position];
    let with_undo = step.undo.work().is_some();
    // If a side in doubt is then refused, its class decides whether it is undone or tried again; and no caller waits any more if the first
    // step is tried again.
    let again = case.first.is_some_and(|first| first.step == case.step);
    if again && (case.fault == StepFault::Refuse || (position == 0 && case.fault == StepFault::LoseReply)) {
        return End::Either;
    }
    if case.undo.is_some() {
        // Past the pivot an undo that is not sure of the target goes forward again.
        return if step.class == Class::Forward { End::Either } else { End::Unwound };
    }
    // A restart takes the guest that was to be copied while it ran; it boots at its source.
    let takes_the_guest = table.position(StepName::CopyGuest).is_some_and(|copy| position <= copy) && !case.stops().is_empty();
    if takes_the_guest {
        return End::Either;
    }
    match (step.class, case.fault) {
        (_, StepFault::Refuse) if position == 0 => End::NeverBegun,
        // The caller may not know, but the successor performs the step again.
        (_, _) if position == 0 => End::Done,
        (_, StepFault::KillActor | StepFault::Freeze | StepFault::Repeat) => End::Done,
        (Class::Cleanup, _) => End::Done,
        // The effect has happened: the target answers that the guest runs.
        (Class::Forward, StepFault::Refuse) if case.moment == Moment::AfterEffect => End::Either,
        (Class::Forward, StepFault::Refuse) if with_undo => End::Unwound,
        (Class::Forward, _) => End::Done,
        (Class::Pivot | Class::Reversible, StepFault::Refuse) => End::Unwound,
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

/// True if the operation's caller is answered at its end, and so is told of a failure.
pub fn answers_at_its_end(table: &Table) -> bool {
    table.position(StepName::TakePort).is_some()
}

/// Returns the required answer to the caller; none if it depends.
pub fn answer(table: &Table, case: &Case) -> Option<std::ops::Range<u16>> {
    let first = table.steps[0].name.as_str();
    if matches!(case.undo, Some(Lead::Forgotten(_) | Lead::Hung(_))) {
        return Some(503..504);
    }
    if case.first.is_some_and(|before| before.step == first) {
        return None;
    }
    if answers_at_its_end(table) && (case.step != first || case.undo.is_some()) {
        return None;
    }
    if case.undo.is_some() || case.step != first || case.moment == Moment::AfterJournal || case.fault == StepFault::Repeat {
        return Some(200..300);
    }
    match case.fault {
        StepFault::Refuse => Some(409..410),
        StepFault::Freeze => None,
        _ => Some(503..504),
    }
}
