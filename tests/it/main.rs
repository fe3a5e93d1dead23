//! The integration tests, as one binary.

mod cloud;
mod faults;
mod layers;
