//! The checks of the engine that a program's own tests may leave out, to show that they would notice: see [`Saga::stands`](crate::Saga::stands).

/// A check without which some fault does harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// A step in doubt counts as begun: it is undone.
    DoubtfulStep,
    /// A pivot in doubt is tried again, not undone.
    DoubtfulPivot,
    /// A side that failed leaves nothing in its saga's context.
    DiscardedContext,
    /// Past the pivot no undo is skipped: while the participant does not answer, the saga goes forward again.
    TargetsWord,
    /// A saga past its pivot is not cancelled.
    LateCancel,
}

impl Guard {
    /// All checks.
    pub const ALL: &[Guard] = &[Guard::DoubtfulStep, Guard::DoubtfulPivot, Guard::DiscardedContext, Guard::TargetsWord, Guard::LateCancel];
}
