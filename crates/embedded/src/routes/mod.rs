//! The APIs of the network and placement services over HTTP.

pub mod network;
pub mod placement;

pub use crate::request_bodies;
