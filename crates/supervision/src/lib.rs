//! Supervision of actix actors. actix's own supervisor restarts an actor that stops, and does not survive one that panics; it counts nothing
//! and tells nobody. With this crate a parent learns of each death of its children, whatever the reason, and what is to follow is decided
//! in one place:
//!
//! - Each child holds a [`DeathGuard`]. When the child is dropped, because it panicked, stopped, lost its last address or its thread, the
//!   guard sends [`ChildDied`] to the parent.
//! - The parent keeps its children in [`Children`]. A [`ChildSpec`] has the child's name, its factory and its [`Intensity`]: how many
//!   restarts within which time. The parent implements `Handler<ChildDied>` by [`Children::on_death`], which starts the successor.
//! - The [`Verdict`] says what came of it. After too many deaths it is [`Verdict::TooOften`]: the child is forgotten, and the parent sends
//!   [`Escalated`] to its own parent, ends itself, or goes on without the child. [`Children::start_once`] is for a child whose successor
//!   only its parent can start, after a look at what the child left behind.
//! - A [`Roster`] lists all supervised actors by their paths with the numbers of their restarts. Through it tests kill actors and make them
//!   stand still. Its [`DeathCount`] is the place for metrics.
//! - [`arbiters`] gives actors a home on one of several threads, which a successor keeps and which is replaced if it ends. An
//!   [`Address`](address::Address) leads to whichever incarnation lives. [`requests`] sends an actor a request that is refused at once when
//!   its mailbox is full, has a deadline, and says whether a request without an answer may have been done.
//!
//! A supervised actor obeys [`Shutdown`] and [`Pause`] beside its own messages; [`supervised!`] makes it. It has no `stopping` or `stopped` hook that
//! could panic: actix runs these hooks again while it unwinds, and a second panic ends the process. For the same reason a program with
//! supervised actors is not built with `panic = "abort"`.
//!
//! `examples/three_deaths.rs` is a whole parent with its child.

#![forbid(unsafe_code)]

pub mod address;
pub mod arbiters;
mod children;
pub mod requests;
mod roster;

pub use children::{ChildDied, ChildSpec, Children, DeathGuard, Escalated, Intensity, Shutdown, Supervised, Verdict};
pub use roster::{DeathCount, Listed, Pause, Roster, stand_still, stand_still_with};

/// For [`supervised!`].
#[doc(hidden)]
pub use actix;

#[cfg(test)]
mod tests;
