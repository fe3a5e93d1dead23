//! The services that span cells: identity, image, network, volume and placement. The traits use the terms of the real services' APIs, and
//! have the calls that the control plane and the hosts need. The embedded implementations store everything in the services database and
//! also serve these APIs over HTTP.
//!
//! Effects of sagas carry a fence. A service refuses a fence below the highest that it has seen for the server, so an effect that arrives
//! after its undo does nothing.

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

/// The reason why a service refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The thing does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The thing's state, a generation or a capacity does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The request is malformed or contradicts itself.
    #[error("{0}")]
    Invalid(String),
    /// The caller lacks the right.
    #[error("{0}")]
    Forbidden(String),
    /// The request exceeds a quota or the service's own limits.
    #[error("{0}")]
    OverLimit(String),
    /// The service cannot do this to a thing in this state.
    #[error("{0}")]
    NotImplemented(String),
    /// A higher fence was obeyed before, so this late effect was refused.
    #[error("{0}")]
    Stale(String),
    /// The service does not answer, or answers 5xx. The outcome of the call is unknown.
    #[error("{service} is unavailable: {reason}")]
    Unavailable {
        /// The service's name.
        service: &'static str,
        /// The service's own message.
        reason: String,
    },
}

impl ServiceError {
    /// Turns a database error into an error for the service's callers.
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
