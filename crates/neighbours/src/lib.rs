//! The services around compute, as the control plane needs them: identity, image, network, volume and placement. The traits use the terms of
//! the real services' APIs, and have the calls of sagas, the scheduler, hosts and the compute API; those of its proxies are in [`proxies`]. Whoever implements a trait may store
//! everything itself or ask a real service.
//!
//! Effects of sagas carry a fence. A service refuses a fence below the highest that it has seen for the server, so an effect that arrives
//! after its undo does nothing.

pub mod identity;
pub mod image;
pub mod network;
pub mod placement;
pub mod proxies;
pub mod stored_bytes;
pub mod volume;

use cellshift_domain::failure::{Failure, FailureKind};
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;

/// The reason why a service refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The thing does not exist.
    #[error("{0}")]
    NotFound(Reason),
    /// The thing's state, a generation or a capacity does not allow it.
    #[error("{0}")]
    Conflict(Reason),
    /// The request is malformed or contradicts itself.
    #[error("{0}")]
    Invalid(Reason),
    /// The caller lacks the right.
    #[error("{0}")]
    Forbidden(Reason),
    /// The request exceeds a quota or the service's own limits.
    #[error("{0}")]
    OverLimit(Reason),
    /// The service cannot do this to a thing in this state.
    #[error("{0}")]
    NotImplemented(Reason),
    /// A higher fence was obeyed before, so this late effect was refused.
    #[error("{0}")]
    Stale(Reason),
    /// The service does not answer, or answers 5xx. The outcome of the call is unknown.
    #[error("{service} is unavailable: {reason}")]
    Unavailable {
        /// The service's name.
        service: &'static str,
        /// The service's own message.
        reason: Reason,
    },
}

impl ServiceError {
    /// Turns the error of a service's database into an error for the service's callers.
    pub fn from_db(service: &'static str, error: impl Failure) -> ServiceError {
        let reason = reason!("{error}");
        match error.failure_kind() {
            FailureKind::Missing(_) => ServiceError::NotFound(reason),
            FailureKind::Conflict => ServiceError::Conflict(reason),
            FailureKind::Stale => ServiceError::Stale(reason),
            FailureKind::Unavailable | FailureKind::Defect => ServiceError::Unavailable { service, reason },
        }
    }
}
