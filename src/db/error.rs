//! Errors of the databases, in terms that the layers above can act on.

use diesel::result::{DatabaseErrorKind, Error as DieselError};

use crate::domain::inside;
use crate::domain::server::{TaskState, VmState};

/// Why a database call did not give a result.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// A record that must exist does not.
    #[error("{0} not found")]
    NotFound(String),
    /// A unique key exists already, or a compare-and-swap met another value.
    #[error("{0}")]
    Conflict(String),
    /// A compare-and-swap met a server in another state than it expected; nothing was changed.
    #[error("instance {server} is in vm_state {vm_state}, task_state {}", task_state.map_or("none", |t| t.as_str()))]
    WrongState {
        /// The server.
        server: uuid::Uuid,
        /// Where it stands.
        vm_state: VmState,
        /// What is being done to it.
        task_state: Option<TaskState>,
    },
    /// A higher fence has written here: this effect is late and did nothing.
    #[error("refused: fence ({0}, {1}) of server {2} is below the one obeyed")]
    Stale(i64, i64, uuid::Uuid),
    /// The database does not answer or cannot store (down, busy past the limit, disk full). What was asked may or may not
    /// have happened.
    #[error("database {name} is unavailable: {reason}")]
    Unavailable {
        /// Which database.
        name: String,
        /// What it said.
        reason: String,
    },
    /// A record that cannot be read as what it should be, or a statement that is wrong: a defect.
    #[error("database error: {}", inside::of(.0))]
    Defect(String),
}

impl DbError {
    /// A record's stored text that does not parse.
    pub fn unreadable(what: &str, text: &str) -> DbError {
        DbError::Defect(format!("{what} holds {text:?}, which is not known"))
    }

    /// True when asking again later may help and the present outcome is unknown.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, DbError::Unavailable { .. })
    }
}

/// A database's words about its own state are for operators; that its disk is full, users can help.
pub(super) fn said(message: &str) -> String {
    match ["disk is full", "No space left"].iter().any(|words| message.contains(words)) {
        true => format!("its disk is full: {}", inside::of(message)),
        false => inside::of(message),
    }
}

impl From<DieselError> for DbError {
    fn from(error: DieselError) -> DbError {
        match error {
            DieselError::NotFound => DbError::NotFound("record".into()),
            DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, info) => {
                DbError::Conflict(format!("A record with these values exists already: {}", inside::of(info.message())))
            }
            // A missing table or a wrong statement is ours; everything else the server says is about its own state.
            DieselError::DatabaseError(
                DatabaseErrorKind::ForeignKeyViolation | DatabaseErrorKind::NotNullViolation | DatabaseErrorKind::CheckViolation,
                info,
            ) => DbError::Defect(info.message().to_owned()),
            DieselError::DatabaseError(_, info) => DbError::Unavailable { name: String::new(), reason: said(info.message()) },
            DieselError::BrokenTransactionManager | DieselError::RollbackErrorOnCommit { .. } => {
                DbError::Unavailable { name: String::new(), reason: inside::of(error) }
            }
            other => DbError::Defect(other.to_string()),
        }
    }
}

impl From<serde_json::Error> for DbError {
    fn from(error: serde_json::Error) -> DbError {
        DbError::Defect(format!("a JSON column cannot be read: {error}"))
    }
}
