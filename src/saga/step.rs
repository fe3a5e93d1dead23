//! How a saga is declared: a table of steps, each with its act, its undo and what may be done when it fails.

use std::future::Future;
use std::pin::Pin;

use super::context::Context;
use super::error::StepError;
use super::step_name::StepName;
use super::world::World;
use crate::domain::fence::Fence;

/// A step's work. It may change the context; the change is journalled with the step's end.
pub type Work = for<'a> fn(&'a World, &'a mut Context, Fence) -> Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 'a>>;

/// What kind of step it is: what happens when its act does not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Before the pivot: any failure unwinds. An act whose end is unknown counts as begun.
    Reversible,
    /// The commit after which the saga goes forward. An unknown end is asked again until it is known; a definite
    /// refusal unwinds.
    Pivot,
    /// After the pivot: retried with back-off until it is done. With an undo, a definite failure hands the server back.
    Forward,
    /// Leaves no user waiting: retried a few times, then owed as a debt while the saga goes on.
    Cleanup,
}

/// How a step is undone.
#[derive(Clone, Copy)]
pub enum Undo {
    /// By this work: idempotent, and it copes with an act that never happened, happened half, or still happens.
    By(Work),
    /// The same, where all that is left lies on the candidate host: while it is owed, another candidate may be tried.
    AtCandidate(Work),
    /// Not at all, for the stated reason.
    Nothing(&'static str),
}

impl Undo {
    /// The work, if there is any.
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

/// When a debt has become moot: what it would remove is in use again, or what it would restore is no longer the operation's to
/// restore. Asked before each payment, and never within a live saga, whose server nobody else can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moot {
    /// Never: the work itself finds out what is left to do.
    Never,
    /// The server has come to this place again.
    InUseAgain(At),
    /// This place no longer owns the server's guest.
    LostOwnership(At),
    /// As [`Moot::LostOwnership`], or the server has left the ERROR in which the operation left it.
    OutOfHand(At),
    /// The server has the volume by another attachment.
    AttachedAnew,
}

/// How long an act may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// In all, in seconds, unless the configuration names another figure for the step.
    Within(u64),
    /// Without progress, in seconds: a copy may take as long as it moves.
    WithoutProgress(u64),
}

/// One row of a saga's table.
#[derive(Clone, Copy)]
pub struct Step {
    /// The step's name in journals, logs and configuration.
    pub name: StepName,
    pub class: Class,
    pub deadline: Deadline,
    pub act: Work,
    pub undo: Undo,
    /// The user's guest depends on it: while its undo (or its clean-up act) is owed, or when its act fails for good without
    /// an undo, the server is in ERROR (INVARIANTS S7).
    pub service_depends: bool,
    /// The next move of the server builds upon it: none begins while its undo is owed.
    pub next_move_waits: bool,
    /// The step is not undone: once it has begun, nobody's wish turns the saga back.
    pub no_way_back: bool,
    /// When this step's debt has nothing left to do.
    pub moot: Moot,
    /// Tries of a reversible act whose end is unknown, before the saga unwinds.
    pub tries: u32,
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
            moot: Moot::Never,
            tries: 1,
        }
    }

    /// A step that can be undone, before the pivot.
    pub const fn reversible(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Reversible, name, act, undo)
    }

    /// The commit after which the saga goes forward.
    pub const fn pivot(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Pivot, name, act, undo)
    }

    /// A step that is retried until it is done.
    pub const fn forward(name: StepName, act: Work) -> Step {
        Step::of(Class::Forward, name, act, Undo::Nothing("past the pivot"))
    }

    /// A step past the pivot whose definite failure hands the server back.
    pub const fn forward_or_back(name: StepName, act: Work, undo: Undo) -> Step {
        Step::of(Class::Forward, name, act, undo)
    }

    /// A step that may be owed.
    pub const fn cleanup(name: StepName, act: Work) -> Step {
        Step::of(Class::Cleanup, name, act, Undo::Nothing("it only removes what is of no use"))
    }

    /// With another deadline.
    pub const fn within(self, deadline: Deadline) -> Step {
        Step { deadline, ..self }
    }

    /// On which the user's guest depends.
    pub const fn serving(self) -> Step {
        Step { service_depends: true, ..self }
    }

    /// On which the next move of the server builds.
    pub const fn before_the_next_move(self) -> Step {
        Step { next_move_waits: true, ..self }
    }

    /// From which no wish turns the saga back.
    pub const fn no_way_back(self) -> Step {
        Step { no_way_back: true, ..self }
    }

    /// Whose debt is struck out without work when this holds.
    pub const fn moot_when(self, moot: Moot) -> Step {
        Step { moot, ..self }
    }

    /// Tried this often while its end is unknown.
    pub const fn tried(self, tries: u32) -> Step {
        Step { tries, ..self }
    }
}

/// A saga: its steps from top to bottom.
#[derive(Clone, Copy)]
pub struct Table {
    pub steps: &'static [Step],
    /// The step that chooses among candidates: a later step that refuses its candidate leads back here.
    pub chooses: Option<StepName>,
}

impl Table {
    /// The position of a step.
    pub fn position(&self, name: StepName) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }
}

/// The error of a table that names a step of another operation's part.
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
