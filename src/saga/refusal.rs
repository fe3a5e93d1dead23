//! Why an operation was not accepted: nothing was begun, and the caller is told at once.

use super::error::StepError;
use crate::db::DbError;
use crate::services::ServiceError;

/// The answer to a request that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such server (or port, volume, …).
    #[error("{0}")]
    NotFound(String),
    /// The server's state does not allow it, or another operation has it.
    #[error("{0}")]
    Conflict(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Not this caller's to do, or over quota.
    #[error("{0}")]
    Forbidden(String),
    /// Something needed does not answer: try again later.
    #[error("{0}")]
    Unavailable(String),
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Refusal {
        match error {
            DbError::NotFound(_) => Refusal::NotFound(error.to_string()),
            DbError::Conflict(why) => Refusal::Conflict(why),
            DbError::Stale(..) | DbError::WrongState { .. } => Refusal::Conflict(error.to_string()),
            DbError::Unavailable { .. } | DbError::Defect(_) => Refusal::Unavailable(error.to_string()),
        }
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Refusal {
        match error {
            ServiceError::NotFound(why) => Refusal::NotFound(why),
            ServiceError::Conflict(why) | ServiceError::Stale(why) => Refusal::Conflict(why),
            ServiceError::Invalid(why) => Refusal::Invalid(why),
            ServiceError::Forbidden(why) => Refusal::Forbidden(why),
            ServiceError::Unavailable { .. } => Refusal::Unavailable(error.to_string()),
        }
    }
}

impl From<StepError> for Refusal {
    fn from(error: StepError) -> Refusal {
        match error {
            StepError::Unknown(why) => Refusal::Unavailable(why),
            StepError::Refused(why) | StepError::NextCandidate(why) | StepError::Overtaken(why) | StepError::GoForward(why) => {
                Refusal::Conflict(why)
            }
        }
    }
}

impl From<Refusal> for StepError {
    fn from(refusal: Refusal) -> StepError {
        match refusal {
            Refusal::Unavailable(why) => StepError::Unknown(why),
            other => StepError::Refused(other.to_string()),
        }
    }
}
