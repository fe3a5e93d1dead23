//! Why a step did not succeed, in the terms that decide what happens next.

use crate::db::DbError;
use crate::services::ServiceError;

/// Why an act or an undo did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Definitely not done, and asking again will not help.
    #[error("{0}")]
    Refused(String),
    /// This candidate host will not have the server; another may.
    #[error("{0}")]
    NextCandidate(String),
    /// Nobody knows whether it was done: a deadline, a lost reply, a participant that does not answer.
    #[error("{0}")]
    Unknown(String),
    /// Someone with a higher fence or lease has taken over: stop without another write.
    #[error("{0}")]
    Overtaken(String),
    /// An undo found that the server must stay where it is: go forward again.
    #[error("{0}")]
    GoForward(String),
}

impl From<DbError> for StepError {
    fn from(error: DbError) -> StepError {
        match error {
            DbError::Unavailable { .. } => StepError::Unknown(error.to_string()),
            DbError::Stale(..) => StepError::Overtaken(error.to_string()),
            DbError::NotFound(_) | DbError::Conflict(_) | DbError::WrongState { .. } | DbError::Defect(_) => {
                StepError::Refused(error.to_string())
            }
        }
    }
}

impl From<ServiceError> for StepError {
    fn from(error: ServiceError) -> StepError {
        match error {
            ServiceError::Unavailable { .. } => StepError::Unknown(error.to_string()),
            ServiceError::Stale(_) => StepError::Overtaken(error.to_string()),
            other => StepError::Refused(other.to_string()),
        }
    }
}
