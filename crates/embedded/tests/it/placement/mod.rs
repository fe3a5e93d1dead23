//! Tests of the placement service.

mod candidate_requests;
mod candidate_search;
mod capacity;
mod requests;
mod reshaper;
mod resource_providers;
