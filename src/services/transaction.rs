//! One transaction of an embedded service: what refuses a request inside it rolls everything back and reaches the caller as
//! the service's own error, not as the database's.

use std::sync::{Arc, OnceLock};

use super::ServiceError;
use crate::db::{Conn, Db, DbError};
use crate::domain::fence::Fence;

/// Why the work of a transaction ends without a result.
#[derive(Debug)]
pub enum Refusal {
    /// The database's reason.
    Db(DbError),
    /// The service's reason.
    Service(ServiceError),
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Refusal {
        Refusal::Db(error)
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Refusal {
        Refusal::Service(error)
    }
}

/// What a refused transaction tells the database layer; the reason itself travels beside it.
const REFUSED: &str = "the service refused";

/// Writes in one transaction, under `fence` when one is given: all of `work` or, on any error, nothing.
pub async fn write<T, F>(db: &Db, service: &'static str, fence: Option<Fence>, work: F) -> Result<T, ServiceError>
where
    T: Send + 'static,
    F: FnOnce(&mut Conn) -> Result<T, Refusal> + Send + 'static,
{
    let reason: Arc<OnceLock<ServiceError>> = Arc::default();
    let noted = Arc::clone(&reason);
    let work = move |conn: &mut Conn| work(conn).map_err(|refusal| note(refusal, &noted));
    let result = match fence {
        Some(fence) => db.write_fenced(fence, work).await,
        None => db.write(work).await,
    };
    result.map_err(|error| explain(service, error, &reason))
}

/// Reads, with the service's own errors.
pub async fn read<T, F>(db: &Db, service: &'static str, work: F) -> Result<T, ServiceError>
where
    T: Send + 'static,
    F: FnOnce(&mut Conn) -> Result<T, Refusal> + Send + 'static,
{
    let reason: Arc<OnceLock<ServiceError>> = Arc::default();
    let noted = Arc::clone(&reason);
    let result = db.read(move |conn| work(conn).map_err(|refusal| note(refusal, &noted))).await;
    result.map_err(|error| explain(service, error, &reason))
}

fn note(refusal: Refusal, reason: &OnceLock<ServiceError>) -> DbError {
    match refusal {
        Refusal::Db(error) => error,
        Refusal::Service(error) => {
            // Set once: a transaction ends at its first refusal.
            let _ = reason.set(error);
            DbError::Conflict(REFUSED.into())
        }
    }
}

fn explain(service: &'static str, error: DbError, reason: &OnceLock<ServiceError>) -> ServiceError {
    match (&error, reason.get()) {
        (DbError::Conflict(text), Some(reason)) if text == REFUSED => reason.clone(),
        _ => ServiceError::from_db(service, error),
    }
}
