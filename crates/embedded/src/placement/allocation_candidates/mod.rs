//! Allocation candidates: the providers that could serve a request together, each with the allocation to make. `query` reads the request; the
//! search is in `cellshift-neighbours`, because the scheduler uses it, too.

mod query;
pub(super) mod routes;

pub(super) use super::candidates::{Candidate, candidates};
pub use query::parse;
