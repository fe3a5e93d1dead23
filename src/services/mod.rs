//! The services that span cells: identity, image, network, volume and placement. Their traits are in the crate `cellshift-neighbours`;
//! the embedded implementations here store everything in the services database and also serve these APIs over HTTP.

mod buffers;
pub mod bytes_on_disk;
pub mod identity;
pub mod image;
pub mod lost_and_found;
pub mod network;
pub mod placement;
pub mod stored_bytes;
pub mod transaction;
pub mod volume;

pub use cellshift_neighbours::ServiceError;
