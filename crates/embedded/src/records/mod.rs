//! The records of the network and placement services.

pub mod network;
pub mod placement;

pub use cellshift_store::Of;
pub use cellshift_store::columns::read_id;
