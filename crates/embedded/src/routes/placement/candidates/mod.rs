//! The query for allocation candidates. The search is the placement service's.

mod query;
#[cfg(test)]
mod tests;

pub use self::query::parse;
pub use crate::placement::candidates::{Candidate, candidates};
