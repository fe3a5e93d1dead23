//! Refusals: the reasons why an operation is not accepted, and whether it may have begun.

use super::error::StepError;
use crate::db::DbError;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::services::ServiceError;

/// The answer to a request that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such server (or port, volume, …).
    #[error("{0}")]
    NotFound(Reason),
    /// The server's state does not allow it, or another operation has it.
    #[error("{0}")]
    Conflict(Reason),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(Reason),
    /// The caller may not do it, or the project is over its quota.
    #[error("{0}")]
    Forbidden(Reason),
    /// A participant does not answer. The operation may have begun.
    #[error("{0}")]
    Unavailable(Reason),
    /// Another conductor has taken the operation over while the request hung, and goes on with it.
    #[error("another conductor has taken the operation over and goes on with it ({0})")]
    Overtaken(Reason),
}

impl Refusal {
    /// True if the operation has not begun and will not.
    pub fn is_definite(&self) -> bool {
        !matches!(self, Refusal::Unavailable(_) | Refusal::Overtaken(_))
    }
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Refusal {
        match error {
            DbError::NotFound(_) => Refusal::NotFound(reason!("{error}")),
            DbError::Conflict(why) => Refusal::Conflict(why),
            DbError::WrongState { .. } => Refusal::Conflict(reason!("{error}")),
            DbError::Stale(..) => Refusal::Overtaken(reason!("{error}")),
            DbError::Unavailable { .. } | DbError::Defect(_) => Refusal::Unavailable(reason!("{error}")),
        }
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Refusal {
        match error {
            ServiceError::NotFound(why) => Refusal::NotFound(why),
            ServiceError::Conflict(why) => Refusal::Conflict(why),
            ServiceError::Stale(why) => Refusal::Overtaken(why),
            ServiceError::Invalid(why) => Refusal::Invalid(why),
            ServiceError::Forbidden(why) | ServiceError::OverLimit(why) | ServiceError::NotImplemented(why) => Refusal::Forbidden(why),
            ServiceError::Unavailable { .. } => Refusal::Unavailable(reason!("{error}")),
        }
    }
}

impl From<StepError> for Refusal {
    fn from(error: StepError) -> Refusal {
        match error {
            StepError::Unknown(why) => Refusal::Unavailable(why),
            StepError::Overtaken(why) => Refusal::Overtaken(why),
            StepError::Refused(why) | StepError::NextCandidate(why) | StepError::GoForward(why) => Refusal::Conflict(why),
        }
    }
}

impl From<Refusal> for StepError {
    fn from(refusal: Refusal) -> StepError {
        match refusal {
            Refusal::Unavailable(why) => StepError::Unknown(why),
            Refusal::Overtaken(why) => StepError::Overtaken(why),
            other => StepError::Refused(reason!("{other}")),
        }
    }
}
