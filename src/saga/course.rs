//! The engine's rules of a runner, for the program's sagas.

pub use cellshift_saga::course::Lost;

use super::compute::Compute;

/// See [`cellshift_saga::Course`].
pub type Course = cellshift_saga::Course<Compute>;
/// See [`cellshift_saga::course::Commit`].
pub type Commit = cellshift_saga::course::Commit<Compute>;
