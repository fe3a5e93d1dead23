//! Faults on purpose: `point` is the hook that the rest of the crate asks "may I fail here?".

pub mod point;
