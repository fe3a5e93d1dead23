//! Placement's records: `providers` with their inventories, `allocations` of consumers, and custom `names`.

pub mod allocations;
pub mod names;
pub mod providers;
mod schema;
