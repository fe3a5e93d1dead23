//! The declaration of a saga: a table of steps, each with its act, its undo, and the rules for its failure.

use std::future::Future;
use std::pin::Pin;

use super::claim::{ClaimingAct, GiveUp};
use super::context::Context;
use super::error::StepError;
use super::idle;
use super::step_name::StepName;
use super::world::World;
use crate::domain::fence::Fence;

/// A step's work. It may change the context; the change is journalled with the step's end.
pub type Work = for<'a> fn(&'a World, &'a mut Context, Fence) -> Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 'a>>;

/// The class of a step decides what happens if its act fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Before the pivot: a failure unwinds the saga. An act with an unknown end counts as begun.
    Reversible,
    /// The commit after which the saga goes forward. An unknown end is tried again until it is known; a refusal unwinds.
    Pivot,
    /// After the pivot: tried with back-off until it is done. With an undo, a refusal hands the server back.
    Forward,
    /// Tried a few times, then owed as a debt while the saga goes on: no user waits for it.
    Cleanup,
}

/// The undo of a step.
#[derive(Clone, Copy)]
pub enum Undo {
    /// This work. It is idempotent, and copes with an act that did not happen, happened half, or still happens.
    By(Work),
    /// As `By`, for leftovers on the candidate host alone: while this undo is owed, another candidate may be tried.
    AtCandidate(Work),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

impl Undo {
    /// Returns the work, if there is any.
    pub fn work(&self) -> Option<Work> {
        match self {
            Undo::By(work) | Undo::AtCandidate(work) => Some(*work),
            Undo::Nothing(_) => None,
        }
    }
}

/// A place of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Source,
    Target,
}

/// The condition under which a debt is moot: its leftovers are in use again, or the operation may no longer restore them. Asked before each
/// payment, and never within a live saga, which alone has its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moot {
    /// Never: the work finds out by itself what is left to do.
    Never,
    /// The server has come to this place again.
    InUseAgain(At),
    /// This place no longer owns the server's guest.
    LostOwnership(At),
    /// As [`Moot::LostOwnership`], or the server has left the ERROR in which the operation left it. A server whose state alone was set to
    /// ACTIVE still waits for its guest.
    OutOfHand(At),
    /// The server is not soft-deleted: it was restored, or deleted for good.
    NotSoftDeleted,
    /// The server has the volume by another attachment, or the port by another attach.
    AttachedAnew,
}

/// The time limit of an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// In all, in seconds. The configuration may name another figure for the step.
    Within(u64),
    /// Without progress, in seconds: a copy may go on while it moves.
    WithoutProgress(u64),
    /// Without an answer of the source host, which is asked at this interval in seconds: a wait may go on while the host lives.
    WhileAlive(u64),
}

/// A row of a saga's table.
#[derive(Clone, Copy)]
pub struct Step {
    /// The step's name in journals, logs and configuration.
    pub name: StepName,
    pub class: Class,
    pub deadline: Deadline,
    pub act: Work,
    pub undo: Undo,
    /// True if the guest depends on the step: while its undo or clean-up is owed, or after a final failure without an undo, the server is in
    /// ERROR (INVARIANTS S7).
    pub service_depends: bool,
    /// True if the server's next move builds upon the step: no move begins while its undo is owed.
    pub next_move_waits: bool,
    /// True if the begun step cannot be undone: a wish to cancel no longer turns the saga back.
    pub no_way_back: bool,
    /// True if a wish to cancel interrupts the act while it runs; otherwise the wish waits for the act's end. The undo comes under a
    /// higher fence, which ends what still runs.
    pub interruptible: bool,
    /// The condition under which the step's debt has nothing left to do.
    pub moot: Moot,
    /// The number of tries of a reversible act with an unknown end before the saga unwinds.
    pub tries: u32,
    /// True if neither act nor undo has anything to do for this context: see [`super::idle`].
    pub is_idle: fn(&Context) -> bool,
}

impl Step {
    const fn of(class: Class, name: StepName, act: Work, undo: Undo) -> Step {
        let deadline = Deadline::Within(60);
        Step {
            name,
            class,
            deadline,
            act,
            undo,
            service_depends: false,
            next_move_waits: false,
            no_way_back: false,
            interruptible: false,
            moot: Moot::Never,
            tries: 1,
            is_idle: idle::never,
        }
    }

    /// Makes a step before the pivot that can be undone.
    pub const fn reversible(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Reversible, name, act, undo)
    }

    /// Makes a step before the pivot whose act claims. Its undo must give the claim up.
    pub const fn claiming(name: StepName, act: ClaimingAct, give_up: GiveUp) -> Step {
        Step::of(Class::Reversible, name, act.work(), give_up.undo())
    }

    /// Makes the commit after which the saga goes forward.
    pub const fn pivot(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Pivot, name, act, undo)
    }

    /// Makes a step that is tried until it is done.
    pub const fn forward(name: StepName, act: Work) -> Step {
        Step::of(Class::Forward, name, act, Undo::Nothing("past the pivot"))
    }

    /// Makes a step past the pivot whose refusal hands the server back.
    pub const fn forward_or_back(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Forward, name, act, undo)
    }

    /// Makes a clean-up, which may be owed.
    pub const fn cleanup(name: StepName, act: Work) -> Step {
        Step::of(Class::Cleanup, name, act, Undo::Nothing("it only removes what is of no use"))
    }

    /// Sets the deadline.
    pub const fn within(self, deadline: Deadline) -> Step {
        Step { deadline, ..self }
    }

    /// Marks the step as one on which the guest depends.
    pub const fn serving(self) -> Step {
        Step { service_depends: true, ..self }
    }

    /// Marks the step as one on which the next move builds.
    pub const fn before_the_next_move(self) -> Step {
        Step { next_move_waits: true, ..self }
    }

    /// Marks the step as one that cannot be undone once it has begun.
    pub const fn no_way_back(self) -> Step {
        Step { no_way_back: true, ..self }
    }

    /// Lets a wish to cancel interrupt the act.
    pub const fn interruptible(self) -> Step {
        Step { interruptible: true, ..self }
    }

    /// Sets the condition under which the step's debt is moot.
    pub const fn moot_when(self, moot: Moot) -> Step {
        Step { moot, ..self }
    }

    /// Sets the condition under which the step has nothing to do.
    pub const fn idle(self, is_idle: fn(&Context) -> bool) -> Step {
        Step { is_idle, ..self }
    }

    /// Sets the number of tries while the end is unknown.
    pub const fn tried(self, tries: u32) -> Step {
        Step { tries, ..self }
    }
}

/// The table of a saga: its steps from top to bottom.
#[derive(Clone, Copy)]
pub struct Table {
    pub steps: &'static [Step],
    /// The step that chooses among candidates. A later step that refuses its candidate leads back to it.
    pub chooses: Option<StepName>,
}

impl Table {
    /// Returns the position of a step.
    pub fn position(&self, name: StepName) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }
}

/// Returns the error of a table that names a step for another operation's part.
pub fn misplaced() -> StepError {
    StepError::Refused("this step belongs to another operation".into())
}

/// Lets a table name an `async fn` as a step's work. The function takes the whole context, the facts of the server, or the part of its own
/// operation.
macro_rules! work {
    ($function:path) => {{
        fn work<'a>(
            world: &'a $crate::saga::world::World,
            context: &'a mut $crate::saga::context::Context,
            fence: $crate::domain::fence::Fence,
        ) -> std::pin::Pin<Box<dyn std::future::Future<Output = Result<(), $crate::saga::error::StepError>> + Send + 'a>> {
            match $crate::saga::context::View::of(context) {
                Some(view) => Box::pin($function(world, view, fence)),
                None => Box::pin(std::future::ready(Err($crate::saga::step::misplaced()))),
            }
        }
        work as $crate::saga::step::Work
    }};
}
pub(crate) use work;

/// Lets a table name an `async fn` that returns a [`Claimed`](super::claim::Claimed) as a step's act, as [`work!`] does for other functions.
macro_rules! claims {
    ($function:path) => {{
        fn work<'a>(
            world: &'a $crate::saga::world::World,
            context: &'a mut $crate::saga::context::Context,
            fence: $crate::domain::fence::Fence,
        ) -> std::pin::Pin<Box<dyn std::future::Future<Output = Result<(), $crate::saga::error::StepError>> + Send + 'a>> {
            match $crate::saga::context::View::of(context) {
                Some(view) => {
                    let act = $function(world, view, fence);
                    Box::pin(async move { act.await.map($crate::saga::claim::Claimed::left_to_undo) })
                }
                None => Box::pin(std::future::ready(Err($crate::saga::step::misplaced()))),
            }
        }
        $crate::saga::claim::ClaimingAct::new(work)
    }};
}
pub(crate) use claims;
