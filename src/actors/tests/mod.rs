//! The surroundings of actors in unit tests.

pub mod fixture;
pub mod played;
