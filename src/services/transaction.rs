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

/// A service over the services database.
pub(crate) trait Transactions: Sync {
    /// What errors call the service.
    const SERVICE: &'static str;

    /// The services database; experiments let it fail.
    fn database(&self) -> &Db;

    /// Writes in one transaction, under `fence` when one is given: all of `work` or, on any error, nothing.
    fn write<T, F>(&self, fence: Option<Fence>, work: F) -> impl Future<Output = Result<T, ServiceError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, Refusal> + Send + 'static,
    {
        async move {
            let (work, reason) = noting(work);
            let result = match fence {
                Some(fence) => self.database().write_fenced(fence, work).await,
                None => self.database().write(work).await,
            };
            result.map_err(|error| explain(Self::SERVICE, error, &reason))
        }
    }

    /// Reads, with the service's own errors.
    fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T, ServiceError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, Refusal> + Send + 'static,
    {
        async move {
            let (work, reason) = noting(work);
            self.database().read(work).await.map_err(|error| explain(Self::SERVICE, error, &reason))
        }
    }
}

/// The work as the database layer takes it, and where the service's own reason is noted when it refuses.
fn noting<T, F>(work: F) -> (impl FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static, Arc<OnceLock<ServiceError>>)
where
    F: FnOnce(&mut Conn) -> Result<T, Refusal> + Send + 'static,
{
    let reason: Arc<OnceLock<ServiceError>> = Arc::default();
    let noted = Arc::clone(&reason);
    let work = move |conn: &mut Conn| {
        work(conn).map_err(|refusal| match refusal {
            Refusal::Db(error) => error,
            Refusal::Service(error) => {
                // Set once: a transaction ends at its first refusal.
                let _ = noted.set(error);
                DbError::Conflict(REFUSED.into())
            }
        })
    };
    (work, reason)
}

fn explain(service: &'static str, error: DbError, reason: &OnceLock<ServiceError>) -> ServiceError {
    match (&error, reason.get()) {
        (DbError::Conflict(text), Some(reason)) if text == REFUSED => reason.clone(),
        _ => ServiceError::from_db(service, error),
    }
}
