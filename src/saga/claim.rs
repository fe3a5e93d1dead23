//! Claims as values. Each work that claims an allocation in placement, or room on a host, returns a [`Claimed`]. A step can get rid of it only
//! by returning it, and [`Step::claiming`](super::step::Step::claiming), the only declaration that takes such an act, demands the undo that
//! gives the claim up.

use super::step::{Undo, Work};

/// The proof of a claim. The step that made it returns it, so that the step's undo gives the claim up.
#[must_use = "the step that claims must return the claim, so that its undo gives it up"]
#[derive(PartialEq, Eq, Debug)]
pub struct Claimed(());

impl Claimed {
    /// Records that the caller has claimed.
    pub(super) const fn made() -> Claimed {
        Claimed(())
    }

    /// Leaves the claim to the undo of the step that returned it. Only [`claims!`](super::step::claims) calls this.
    pub fn left_to_undo(self) {}
}

/// An act that claims, as [`claims!`](super::step::claims) makes it.
#[derive(Clone, Copy)]
pub struct ClaimingAct(Work);

impl ClaimingAct {
    /// Wraps an act whose claim is left to its step's undo.
    pub const fn new(act: Work) -> ClaimingAct {
        ClaimingAct(act)
    }

    /// Returns the act.
    pub const fn work(self) -> Work {
        self.0
    }
}

/// The undo of a step that claims.
#[derive(Clone, Copy)]
pub enum GiveUp {
    /// See [`Undo::By`].
    By(Work),
    /// See [`Undo::AtCandidate`].
    AtCandidate(Work),
}

impl GiveUp {
    /// Returns the step's undo.
    pub const fn undo(self) -> Undo {
        match self {
            GiveUp::By(work) => Undo::By(work),
            GiveUp::AtCandidate(work) => Undo::AtCandidate(work),
        }
    }
}
