//! The services that span cells: identity, image, network, volume and placement. Their traits are in the crate `cellshift-neighbours`; the
//! embedded implementations, which store everything in the services database and also serve these APIs over HTTP, in `cellshift-embedded`.

pub use cellshift_embedded::{
    ServiceError, bytes_on_disk, identity, image, lost_and_found, network, placement, stored_bytes, transaction, volume,
};
pub use cellshift_neighbours::proxies;
