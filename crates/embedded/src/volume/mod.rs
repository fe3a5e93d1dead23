//! The volume service: the embedded implementation of [`VolumeService`].

pub mod embedded;

pub use cellshift_neighbours::volume::*;
