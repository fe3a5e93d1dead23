//! What spans cells: identity, image, network, volume and placement. The traits speak in the terms of the real services'
//! APIs and hold what the control plane and the hosts need of them; the embedded implementations store everything in the
//! services database and also serve those APIs over HTTP.
//!
//! Effects of sagas carry a fence: the service obeys no fence below the highest it has seen for the server, so an effect
//! that arrives after its undo does nothing.

pub mod bytes_on_disk;
pub mod identity;
pub mod image;
pub mod lost_and_found;
pub mod network;
pub mod placement;
pub mod stored_bytes;
pub mod transaction;
pub mod volume;

use crate::db::DbError;

/// Why a service did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// No such thing.
    #[error("{0}")]
    NotFound(String),
    /// The thing's state, a generation or a capacity does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Not for this caller.
    #[error("{0}")]
    Forbidden(String),
    /// More than a quota or the service's own limits allow.
    #[error("{0}")]
    OverLimit(String),
    /// A higher fence was obeyed: late, and nothing was done.
    #[error("{0}")]
    Stale(String),
    /// The service does not answer, or says 5xx: what was asked may or may not have happened.
    #[error("{service} is unavailable: {reason}")]
    Unavailable {
        /// Which service.
        service: &'static str,
        /// What it said.
        reason: String,
    },
}

impl ServiceError {
    /// A database error as this service's callers see it.
    pub fn from_db(service: &'static str, error: DbError) -> ServiceError {
        match error {
            DbError::NotFound(what) => ServiceError::NotFound(format!("{what} not found")),
            DbError::Conflict(why) => ServiceError::Conflict(why),
            DbError::WrongState { .. } => ServiceError::Conflict(error.to_string()),
            DbError::Stale(..) => ServiceError::Stale(error.to_string()),
            DbError::Unavailable { .. } | DbError::Defect(_) => ServiceError::Unavailable { service, reason: error.to_string() },
        }
    }
}
