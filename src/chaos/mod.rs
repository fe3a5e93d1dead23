//! Deliberate faults and their proof. `point` is the hook where the crate asks for a fault, `audit` says which invariants do not hold,
//! `experiment` describes a run and its results, and `simulation` runs the whole cloud from a seed.

pub mod audit;
pub mod experiment;
pub mod performer;
pub mod point;
pub mod simulation;
