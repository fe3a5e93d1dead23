//! Faults on purpose and their proof: `point` is the hook that the rest of the crate asks "may I fail here?", `audit` says
//! which invariants do not hold afterwards, `experiment` is what a file says of a run and what is told of it, `simulation` runs the
//! whole cloud under a seed.

pub mod audit;
pub mod experiment;
pub mod point;
pub mod simulation;
