//! Errors of steps, by the saga's next move.

use cellshift_saga::perform::Performed;

use super::machine::Outcome;
use crate::db::DbError;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::services::ServiceError;

/// The error of an act or an undo.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Not done, and a repetition would not help.
    #[error("{0}")]
    Refused(Reason),
    /// The candidate host refuses the server; another may accept it.
    #[error("{0}")]
    NextCandidate(Reason),
    /// Unknown whether it was done: a deadline, a lost reply, or a silent participant.
    #[error("{0}")]
    Unknown(Reason),
    /// An owner with a higher fence or lease has taken over: stop without another write.
    #[error("{0}")]
    Overtaken(Reason),
    /// An undo found that the server must stay: the saga goes forward again.
    #[error("{0}")]
    GoForward(Reason),
}

impl From<StepError> for Performed {
    fn from(error: StepError) -> Performed {
        Performed::Ended(match error {
            StepError::Overtaken(why) => return Performed::Overtaken(why.stored()),
            StepError::Refused(why) => Outcome::Refused(why.stored()),
            StepError::NextCandidate(why) => Outcome::NextCandidate(why.stored()),
            StepError::Unknown(why) => Outcome::Unknown(why.stored()),
            StepError::GoForward(why) => Outcome::GoForward(why.stored()),
        })
    }
}

impl From<DbError> for StepError {
    fn from(error: DbError) -> StepError {
        match error {
            DbError::Unavailable { .. } => StepError::Unknown(reason!("{error}")),
            DbError::Stale(..) => StepError::Overtaken(reason!("{error}")),
            DbError::NotFound(_) | DbError::Conflict(_) | DbError::WrongState { .. } | DbError::Defect(_) => {
                StepError::Refused(reason!("{error}"))
            }
        }
    }
}

impl From<ServiceError> for StepError {
    fn from(error: ServiceError) -> StepError {
        match error {
            ServiceError::Unavailable { .. } => StepError::Unknown(reason!("{error}")),
            ServiceError::Stale(_) => StepError::Overtaken(reason!("{error}")),
            ServiceError::Conflict(why) => StepError::Refused(why),
            other => StepError::Refused(reason!("{other}")),
        }
    }
}
