//! Errors of the databases, in terms that the layers above can act on.

use cellshift_domain::failure::{Failure, FailureKind};
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_domain::server::{TaskState, VmState};
use cellshift_env::metrics::STALE;
use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// The reason why a database call failed.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// A required record does not exist.
    #[error("{0} not found")]
    NotFound(String),
    /// A unique key exists already, or a compare-and-swap met another value.
    #[error("{0}")]
    Conflict(Reason),
    /// A compare-and-swap met a server in an unexpected state. Nothing was changed.
    #[error("instance {server} is in vm_state {vm_state}, task_state {}", task_state.map_or("none", |t| t.as_str()))]
    WrongState {
        /// The server.
        server: uuid::Uuid,
        /// The server's present state.
        vm_state: VmState,
        /// The server's present task.
        task_state: Option<TaskState>,
    },
    /// A higher fence has written here, so this late effect was refused.
    #[error("refused: fence ({0}, {1}) of server {2} is below the one obeyed")]
    Stale(i64, i64, uuid::Uuid),
    /// The database does not answer or cannot store (down, busy for too long, disk full). The outcome of the call is unknown.
    #[error("database {name} is unavailable: {reason}")]
    Unavailable {
        /// The database's name.
        name: String,
        /// The database's own message.
        reason: Reason,
    },
    /// A defect: a record that cannot be parsed, or a wrong statement.
    #[error("database error: {}", Inside(.0))]
    Defect(String),
}

impl DbError {
    /// Makes the error for a stored text that cannot be parsed.
    pub fn unreadable(what: &str, text: &str) -> DbError {
        DbError::Defect(format!("{what} holds {text:?}, which is not known"))
    }

    /// Returns the kind of the error for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            DbError::NotFound(_) => "not_found",
            DbError::Conflict(_) => "conflict",
            DbError::WrongState { .. } => "wrong_state",
            DbError::Stale(..) => STALE,
            DbError::Unavailable { .. } => "unavailable",
            DbError::Defect(_) => "defect",
        }
    }

    /// True if a later try may succeed and the outcome of this one is unknown.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, DbError::Unavailable { .. })
    }
}

impl Failure for DbError {
    fn failure_kind(&self) -> FailureKind<'_> {
        match self {
            DbError::NotFound(what) => FailureKind::Missing(what),
            DbError::Conflict(_) | DbError::WrongState { .. } => FailureKind::Conflict,
            DbError::Stale(..) => FailureKind::Stale,
            DbError::Unavailable { .. } => FailureKind::Unavailable,
            DbError::Defect(_) => FailureKind::Defect,
        }
    }
}

/// Hides a database's message about its own state from users, but tells them that the disk is full, because they can help.
pub(crate) fn said(message: &str) -> Reason {
    match ["disk is full", "No space left"].iter().any(|words| message.contains(words)) {
        true => reason!("its disk is full: {}", Inside(message)),
        false => Reason::inside(message),
    }
}

impl From<DieselError> for DbError {
    fn from(error: DieselError) -> DbError {
        match error {
            DieselError::NotFound => DbError::NotFound("record".into()),
            DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, info) => {
                DbError::Conflict(reason!("A record with these values exists already: {}", Inside(info.message())))
            }
            // A missing table or a wrong statement is a defect of this program. All other errors concern the server's own state.
            DieselError::DatabaseError(
                DatabaseErrorKind::ForeignKeyViolation | DatabaseErrorKind::NotNullViolation | DatabaseErrorKind::CheckViolation,
                info,
            ) => DbError::Defect(info.message().to_owned()),
            DieselError::DatabaseError(_, info) => DbError::Unavailable { name: String::new(), reason: said(info.message()) },
            DieselError::BrokenTransactionManager | DieselError::RollbackErrorOnCommit { .. } => {
                DbError::Unavailable { name: String::new(), reason: Reason::inside(error) }
            }
            other => DbError::Defect(with_causes(&other)),
        }
    }
}

/// Diesel's own sentence names the column; only its cause says what is wrong with the value.
fn with_causes(error: &DieselError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl From<serde_json::Error> for DbError {
    fn from(error: serde_json::Error) -> DbError {
        DbError::Defect(format!("a JSON column cannot be read: {error}"))
    }
}
