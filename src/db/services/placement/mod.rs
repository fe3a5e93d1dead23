//! Placement's records: `providers` with what they offer, `allocations` with what consumers take, `names` beyond the standard ones.

pub mod allocations;
pub mod names;
pub mod providers;
mod schema;
