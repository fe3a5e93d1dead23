//! The declaration of a saga: a table of steps, each with its act, its undo, and the rules for its failure.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::claim::{ClaimingAct, GiveUp};
use crate::machine::Side;
use crate::saga::Saga;

/// The way to the end of a work.
pub type Working<'a, S> = Pin<Box<dyn Future<Output = Result<(), <S as Saga>::Error>> + Send + 'a>>;

/// A step's work. It may change the context; the program stores the change with the step's end. [`work!`](crate::work) makes one of an
/// `async fn`.
pub type Work<S> = for<'a> fn(&'a <S as Saga>::World, &'a mut <S as Saga>::Context, <S as Saga>::Fence) -> Working<'a, S>;

/// A question to a context.
pub type Condition<S> = fn(&<S as Saga>::Context) -> bool;

/// The class of a step decides what happens if its act fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Before the pivot: a failure unwinds the saga. An act with an unknown end counts as begun.
    Reversible,
    /// The commit after which the saga goes forward. An unknown end is tried again until it is known; a refusal unwinds.
    Pivot,
    /// After the pivot: tried with back-off until it is done. With an undo, a refusal hands back what the saga is about.
    Forward,
    /// Tried a few times, then owed as a debt while the saga goes on: no user waits for it.
    Cleanup,
}

/// The undo of a step.
#[derive(Clone, Copy)]
pub enum Undo<S: Saga> {
    /// A work that is idempotent, and copes with an act that did not happen, happened half, or still happens.
    By(Work<S>),
    /// As `By`, for leftovers at the candidate alone: while this undo is owed, another candidate may be tried.
    AtCandidate(Work<S>),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

impl<S: Saga> Undo<S> {
    /// Returns the work, if there is any.
    pub fn work(&self) -> Option<Work<S>> {
        match self {
            Undo::By(work) | Undo::AtCandidate(work) => Some(*work),
            Undo::Nothing(_) => None,
        }
    }
}

/// The time limit of an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// In all, in seconds.
    Within(u64),
    /// Without progress, in seconds: a copy may go on while it moves.
    WithoutProgress(u64),
    /// Without an answer of the participant, which is asked at this interval in seconds: a wait may go on while it lives.
    WhileAlive(u64),
}

impl Deadline {
    /// Returns the limit, whatever it counts.
    pub const fn limit(self) -> Duration {
        match self {
            Deadline::Within(seconds) | Deadline::WithoutProgress(seconds) | Deadline::WhileAlive(seconds) => Duration::from_secs(seconds),
        }
    }
}

/// A row of a saga's table.
#[derive(Clone, Copy)]
pub struct Step<S: Saga> {
    /// The step's name in journals and logs.
    pub name: S::Name,
    pub class: Class,
    pub deadline: Deadline,
    pub act: Work<S>,
    pub undo: Undo<S>,
    /// The work that pays what the step owes; none if the owed side does it itself. Unlike that side it meets a world that has gone on since
    /// the saga ended.
    pub payment: Option<Work<S>>,
    /// True if a service depends on the step: while its undo or clean-up is owed, or after a final failure without an undo, the service is
    /// lost (see [`Lost`](crate::course::Lost)).
    pub service_depends: bool,
    /// True if the next saga that moves the same thing builds upon the step. The program begins none while its undo is owed.
    pub next_move_waits: bool,
    /// True if the begun step cannot be undone: a wish to cancel no longer turns the saga back.
    pub no_way_back: bool,
    /// True if a wish to cancel interrupts the act while it runs; otherwise the wish waits for the act's end. The undo comes under a
    /// higher fence, which ends what still runs.
    pub interruptible: bool,
    /// The condition under which the step's debt has nothing left to do.
    pub moot: S::Moot,
    /// The number of tries of a reversible act with an unknown end before the saga unwinds.
    pub tries: u32,
    /// True if neither act nor undo has anything to do for this context. The saga passes over such a step: its end is a line of the next
    /// commit, and no participant hears of it. A condition asks only for facts that are known before the step and that the saga does not
    /// change.
    pub is_idle: Condition<S>,
}

impl<S: Saga> Step<S> {
    const fn of(class: Class, name: S::Name, act: Work<S>, undo: Undo<S>) -> Step<S> {
        let deadline = Deadline::Within(60);
        Step {
            name,
            class,
            deadline,
            act,
            undo,
            payment: None,
            service_depends: false,
            next_move_waits: false,
            no_way_back: false,
            interruptible: false,
            moot: S::NEVER_MOOT,
            tries: 1,
            is_idle: never::<S>,
        }
    }

    /// Makes a step before the pivot that can be undone.
    pub const fn reversible(name: S::Name, act: Work<S>, undo: Undo<S>) -> Step<S> {
        Step::of(Class::Reversible, name, act, undo)
    }

    /// Makes a step before the pivot whose act claims. Its undo must give the claim up.
    pub const fn claiming(name: S::Name, act: ClaimingAct<S>, give_up: GiveUp<S>) -> Step<S> {
        Step::of(Class::Reversible, name, act.work(), give_up.undo())
    }

    /// Makes the commit after which the saga goes forward.
    pub const fn pivot(name: S::Name, act: Work<S>, undo: Undo<S>) -> Step<S> {
        Step::of(Class::Pivot, name, act, undo)
    }

    /// Makes a step that is tried until it is done.
    pub const fn forward(name: S::Name, act: Work<S>) -> Step<S> {
        Step::of(Class::Forward, name, act, Undo::Nothing("past the pivot"))
    }

    /// Makes a step past the pivot whose refusal hands back what the saga is about.
    pub const fn forward_or_back(name: S::Name, act: Work<S>, undo: Undo<S>) -> Step<S> {
        Step::of(Class::Forward, name, act, undo)
    }

    /// Makes a clean-up, which may be owed.
    pub const fn cleanup(name: S::Name, act: Work<S>) -> Step<S> {
        Step::of(Class::Cleanup, name, act, Undo::Nothing("it only removes what is of no use"))
    }

    /// Sets the work that pays the step's debt: of a clean-up the owed act, of any other step the owed undo.
    pub const fn paid_by(self, payment: Work<S>) -> Step<S> {
        Step { payment: Some(payment), ..self }
    }

    /// Sets the deadline.
    pub const fn within(self, deadline: Deadline) -> Step<S> {
        Step { deadline, ..self }
    }

    /// Marks the step as one on which a service depends.
    pub const fn serving(self) -> Step<S> {
        Step { service_depends: true, ..self }
    }

    /// Marks the step as one on which the next move builds.
    pub const fn before_the_next_move(self) -> Step<S> {
        Step { next_move_waits: true, ..self }
    }

    /// Marks the step as one that cannot be undone once it has begun.
    pub const fn no_way_back(self) -> Step<S> {
        Step { no_way_back: true, ..self }
    }

    /// Lets a wish to cancel interrupt the act.
    pub const fn interruptible(self) -> Step<S> {
        Step { interruptible: true, ..self }
    }

    /// Sets the condition under which the step's debt is moot.
    pub const fn moot_when(self, moot: S::Moot) -> Step<S> {
        Step { moot, ..self }
    }

    /// Sets the condition under which the step has nothing to do.
    pub const fn idle(self, is_idle: Condition<S>) -> Step<S> {
        Step { is_idle, ..self }
    }

    /// Sets the number of tries while the end is unknown.
    pub const fn tried(self, tries: u32) -> Step<S> {
        Step { tries, ..self }
    }

    /// Returns the work of a side; none for an undo that has nothing to do.
    pub fn work(&self, side: Side) -> Option<Work<S>> {
        match side {
            Side::Act => Some(self.act),
            Side::Undo => self.undo.work(),
        }
    }

    /// Returns the work that pays this side once the saga owes it: the step's payment if it names one, else the side itself. None for an undo
    /// that has nothing to do.
    pub fn payment_of(&self, side: Side) -> Option<Work<S>> {
        self.payment.or_else(|| self.work(side))
    }

    /// True if a wish to cancel interrupts this side while it runs.
    pub fn heeds_wishes(&self, side: Side) -> bool {
        self.interruptible && side == Side::Act
    }
}

/// The condition of a step that always has something to do.
fn never<S: Saga>(_: &S::Context) -> bool {
    false
}

/// The table of a saga: its steps from top to bottom.
#[derive(Clone, Copy)]
pub struct Table<S: Saga> {
    pub steps: &'static [Step<S>],
    /// The step that chooses among candidates. A later step that refuses its candidate leads back to it.
    pub chooses: Option<S::Name>,
}

impl<S: Saga> Table<S> {
    /// Makes the table of a saga that chooses among no candidates.
    pub const fn of(steps: &'static [Step<S>]) -> Table<S> {
        Table { steps, chooses: None }
    }

    /// Returns the position of a step.
    pub fn position(&self, name: S::Name) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }

    /// Returns the step of this name in a journal or a debt; none if the table has none.
    pub fn named(&self, name: &str) -> Option<&'static Step<S>> {
        self.steps.iter().find(|step| step.name.as_ref() == name)
    }
}
