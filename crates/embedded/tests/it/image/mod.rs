//! Tests of the image service.

mod attributes;
mod files;
mod requests;
