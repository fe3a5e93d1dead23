//! Errors of steps, by the saga's next move.

use cellshift_saga::perform::Performed;

use super::machine::Outcome;
use crate::db::DbError;
use crate::services::ServiceError;

/// The error of an act or an undo.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Not done, and a repetition would not help.
    #[error("{0}")]
    Refused(String),
    /// This candidate host refuses the server; another may accept it.
    #[error("{0}")]
    NextCandidate(String),
    /// Unknown whether it was done: a deadline, a lost reply, or a silent participant.
    #[error("{0}")]
    Unknown(String),
    /// An owner with a higher fence or lease has taken over: stop without another write.
    #[error("{0}")]
    Overtaken(String),
    /// An undo found that the server must stay: the saga goes forward again.
    #[error("{0}")]
    GoForward(String),
}

impl From<StepError> for Performed {
    fn from(error: StepError) -> Performed {
        Performed::Ended(match error {
            StepError::Overtaken(why) => return Performed::Overtaken(why),
            StepError::Refused(why) => Outcome::Refused(why),
            StepError::NextCandidate(why) => Outcome::NextCandidate(why),
            StepError::Unknown(why) => Outcome::Unknown(why),
            StepError::GoForward(why) => Outcome::GoForward(why),
        })
    }
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
