//! Tests of the embedded services, as the program and clients use them.

mod door;
mod identity;
mod image;
mod lost_and_found;
mod network;
mod placement;
mod test_api;
mod volume;
