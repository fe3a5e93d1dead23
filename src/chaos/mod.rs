//! Faults on purpose and their proof: `point` is the hook that the rest of the crate asks "may I fail here?", `audit` says
//! which invariants do not hold afterwards.

pub mod audit;
pub mod point;
