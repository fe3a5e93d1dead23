//! The integration tests, as one binary.

mod layers;
