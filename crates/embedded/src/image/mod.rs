//! The image service: the embedded implementation of [`ImageService`].

pub mod embedded;

pub use cellshift_neighbours::image::*;
