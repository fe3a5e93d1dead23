//! The Compute API, v2.1 with microversions.

pub mod versions;
