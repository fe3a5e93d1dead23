//! The records of the embedded services: one folder or file per service. They share nothing with each other.

pub mod identity;
pub mod image;
pub mod network;
pub mod placement;
pub mod volume;

use uuid::Uuid;

use super::DbError;

/// An id column's value; what cannot be read as one is a defect.
pub fn read_id(column: &str, text: &str) -> Result<Uuid, DbError> {
    Uuid::parse_str(text).map_err(|_| DbError::unreadable(column, text))
}
