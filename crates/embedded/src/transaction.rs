//! A transaction of an embedded service. A refusal inside it rolls everything back and reaches the caller as the service's own error, not
//! as a database error.

use std::sync::{Arc, OnceLock};

use cellshift_domain::fence::Fence;
use cellshift_domain::reason::{Reason, ReasonCode};
use cellshift_store::{Conn, Db, DbError};

use crate::ServiceError;

/// The reason why the work of a transaction failed.
#[derive(Debug)]
pub enum TransactionError {
    /// The database's error.
    Db(DbError),
    /// The service's error.
    Service(ServiceError),
}

impl From<DbError> for TransactionError {
    fn from(error: DbError) -> TransactionError {
        TransactionError::Db(error)
    }
}

impl From<ServiceError> for TransactionError {
    fn from(error: ServiceError) -> TransactionError {
        TransactionError::Service(error)
    }
}

/// A service over the services database.
pub trait Transactions: Sync {
    /// The service's name in errors.
    const SERVICE: &'static str;

    /// Returns the services database. Experiments can make it fail.
    fn database(&self) -> &Db;

    /// Runs `work` in one write transaction, under `fence` if given. Any error rolls all of it back.
    fn write<T, F>(&self, fence: Option<Fence>, work: F) -> impl Future<Output = Result<T, ServiceError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, TransactionError> + Send + 'static,
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

    /// Runs `work` in a read transaction, with the service's own errors.
    fn read<T, F>(&self, work: F) -> impl Future<Output = Result<T, ServiceError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&mut Conn) -> Result<T, TransactionError> + Send + 'static,
    {
        async move {
            let (work, reason) = noting(work);
            self.database().read(work).await.map_err(|error| explain(Self::SERVICE, error, &reason))
        }
    }
}

/// Adapts the work for the database layer, and returns the place where it puts the service's own error.
fn noting<T, F>(work: F) -> (impl FnOnce(&mut Conn) -> Result<T, DbError> + Send + 'static, Arc<OnceLock<ServiceError>>)
where
    F: FnOnce(&mut Conn) -> Result<T, TransactionError> + Send + 'static,
{
    let reason: Arc<OnceLock<ServiceError>> = Arc::default();
    let noted = Arc::clone(&reason);
    let work = move |conn: &mut Conn| {
        work(conn).map_err(|refusal| match refusal {
            TransactionError::Db(error) => error,
            TransactionError::Service(error) => {
                // Set once, because a transaction ends at its first refusal.
                let _ = noted.set(error);
                // The database only rolls back. The service's own error is kept beside this one.
                DbError::Conflict(Reason::from("the service refused").coded(ReasonCode::RefusedInside))
            }
        })
    };
    (work, reason)
}

fn explain(service: &'static str, error: DbError, reason: &OnceLock<ServiceError>) -> ServiceError {
    match (&error, reason.get()) {
        (DbError::Conflict(why), Some(reason)) if why.code() == Some(ReasonCode::RefusedInside) => reason.clone(),
        _ => ServiceError::from_db(service, error),
    }
}
