//! A compute host.

pub mod virt;
