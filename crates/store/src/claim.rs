//! A caller's claim upon a database that others may have made or may use: it is checked before the database is opened, and noted in it.

use std::fmt::Debug;

use crate::{Conn, DbError};

/// A claim upon a database.
pub trait Claim: Debug + Send + Sync {
    /// Checks, without changing the database, whether the claim fits what is there. The inner error is the reason why it does not, as a
    /// sentence that does not name the database's place. Blocking.
    fn check(&self, url: &str) -> Result<Result<(), String>, DbError>;

    /// Notes the claim in the database before its migrations run, in a transaction that excludes all other starts. An error ends the
    /// opening, and nothing is changed.
    fn note(&self, conn: &mut Conn) -> Result<(), DbError>;

    /// Renews what of the claim lasts for a time only, in the same transaction: the migrations may have taken longer.
    fn renew(&self, conn: &mut Conn) -> Result<(), DbError>;
}
