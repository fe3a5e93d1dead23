//! The search for allocation candidates over trees of providers: the query, and what meets it.

mod query;
mod search;
#[cfg(test)]
mod tests;

pub(super) use self::query::parse;
pub(super) use self::search::{Candidate, candidates};
