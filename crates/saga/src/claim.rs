//! Claims as values. A work that claims something scarce for its saga returns a [`Claimed`]. A step can get rid of it only by returning it, and
//! [`Step::claiming`](crate::Step::claiming), the only declaration that takes such an act, demands the undo that gives the claim up.

use crate::saga::Saga;
use crate::step::{Undo, Work};

/// The proof of a claim. The step that made it returns it, so that the step's undo gives the claim up.
#[must_use = "the step that claims must return the claim, so that its undo gives it up"]
#[derive(PartialEq, Eq, Debug)]
pub struct Claimed(());

impl Claimed {
    /// Records that the caller has claimed. Called beside the effect that claims, and nowhere else.
    pub const fn made() -> Claimed {
        Claimed(())
    }

    /// Leaves the claim to the undo of the step that returned it. Only the wrapper that makes a [`ClaimingAct`] of a function calls this.
    pub fn left_to_undo(self) {}
}

/// An act that claims.
#[derive(Clone, Copy)]
pub struct ClaimingAct<S: Saga>(Work<S>);

impl<S: Saga> ClaimingAct<S> {
    /// Wraps an act whose claim is left to its step's undo.
    pub const fn new(act: Work<S>) -> ClaimingAct<S> {
        ClaimingAct(act)
    }

    /// Returns the act.
    pub const fn work(self) -> Work<S> {
        self.0
    }
}

/// The undo of a step that claims.
#[derive(Clone, Copy)]
pub enum GiveUp<S: Saga> {
    /// See [`Undo::By`].
    By(Work<S>),
    /// See [`Undo::AtCandidate`].
    AtCandidate(Work<S>),
}

impl<S: Saga> GiveUp<S> {
    /// Returns the step's undo.
    pub const fn undo(self) -> Undo<S> {
        match self {
            GiveUp::By(work) => Undo::By(work),
            GiveUp::AtCandidate(work) => Undo::AtCandidate(work),
        }
    }
}
