//! Faults on purpose and their proof: `point` is the hook that the rest of the crate asks "may I fail here?", `audit` says
//! which invariants do not hold afterwards, `simulation` runs the whole cloud under a seed.

pub mod audit;
pub mod point;
pub mod simulation;
