//! The borders between the program and its databases and files, where an experiment may put faults. A service has no faults there
//! ([`Open`]); `src/chaos/` has borders with faults.

use std::any::Any;
use std::io;

use futures::future::BoxFuture;

/// The borders of one environment.
pub trait Borders: Any + Send + Sync {
    /// Returns a gate for each handle of a database; none if calls pass without being asked.
    fn gate(&self) -> Option<Box<dyn Gate>>;

    /// Called before bytes are written to a file of an image, a volume or a host.
    fn before_write(&self, bytes: usize) -> io::Result<()>;
}

/// Stands before the calls of a database.
pub trait Gate: Any + Send + Sync {
    /// Returns when the call may begin, with what becomes of its reply. An error is the reason why the call is refused.
    fn pass(&self) -> BoxFuture<'_, Result<Reply, String>>;
}

/// The fate of a call's reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The caller gets it.
    Kept,
    /// The caller gets an error with this reason, although the call was done.
    Lost(String),
}

/// Borders without faults.
pub struct Open;

impl Borders for Open {
    fn gate(&self) -> Option<Box<dyn Gate>> {
        None
    }

    fn before_write(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
}
