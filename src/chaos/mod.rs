//! Deliberate faults and their proof. `seams` and `borders` put faults between the parts of a cloud, `point` is
//! the hook of steps, `audit` says which invariants do not hold, and
//! `experiment` describes a run and its results.

pub mod audit;
pub mod borders;
pub mod drivers;
pub mod experiment;
pub mod performer;
pub mod point;
pub mod seams;
