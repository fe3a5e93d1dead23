//! The records of the embedded services: one folder or file per service. The services share no records.

pub mod identity;
pub mod image;
pub mod image_tasks;
pub mod network;
pub mod placement;
pub mod volume;

use uuid::Uuid;

use super::DbError;
pub use super::Of;

/// Parses an id column. An id that cannot be parsed is a defect.
pub fn read_id(column: &str, text: &str) -> Result<Uuid, DbError> {
    Uuid::parse_str(text).map_err(|_| DbError::unreadable(column, text))
}
