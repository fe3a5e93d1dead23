//! Claims as values: an allocation in placement, or room on a host. See [`cellshift_saga::claim`].

pub use cellshift_saga::claim::Claimed;

use super::compute::Compute;

/// An act that claims, as [`claims!`](super::step::claims) makes it.
pub type ClaimingAct = cellshift_saga::claim::ClaimingAct<Compute>;
/// The undo of a step that claims.
pub type GiveUp = cellshift_saga::claim::GiveUp<Compute>;
