//! The runner's pure core, the journal's format and one file per saga, over traits for hosts, cells and services.
//! No actix, no diesel, no clock.

pub mod notifications;
pub mod scheduling;
