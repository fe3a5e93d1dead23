//! The records of the embedded services: one folder or file per service. The services share no records.

pub mod identity;
pub mod image;
pub mod image_tasks;
pub mod network;
pub mod placement;
pub mod volume;

pub use super::Of;
pub use super::columns::read_id;
