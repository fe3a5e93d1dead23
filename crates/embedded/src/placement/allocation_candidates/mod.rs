//! Allocation candidates: the providers that could serve a request together, each with the allocation to make. `query` reads the request; the
//! search is in `cellshift-neighbours`, because the scheduler uses it, too.

mod query;
pub(super) mod routes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_requests;

pub(super) use super::candidates::{Candidate, candidates};
pub(super) use query::parse;
