//! The way to a database, whatever its tables are: SQLite and PostgreSQL behind one connection, [`Conn`], and a handle, [`Db`], whose calls
//! are transactions off the caller's thread.
//!
//! Whoever opens a [`Db`] brings the [`Migrations`] of its tables, and if others may have made the database a [`Claim`] upon it. The modules:
//!
//! - [`connection`] opens either kind of database and brings its schema up to date; `opening` does so now or later.
//! - `migrations` has the scripts of a schema's changes, one for both kinds of database or one for each.
//! - `writer` groups the commits of a SQLite file.
//! - [`columns`] has the column types of ids, times, JSON and the values of `cellshift-domain`; [`clock`] the database's own time.
//! - [`fence`] refuses late effects. Its table and that of [`mirror`], which keeps records in memory, are made by the migrations.
//! - [`merged`] changes some values of a JSON object.
//! - [`rows`] writes many rows with one statement, [`Of`] reads all or some, [`place`] names a database without its password.
//! - [`error`] has the errors in terms that the layers above can act on.

#![forbid(unsafe_code)]

pub mod claim;
pub mod clock;
pub mod columns;
pub mod connection;
mod db;
pub mod error;
pub mod fence;
#[cfg(any(test, feature = "testkit"))]
pub mod fixture;
pub mod merged;
pub mod migrations;
pub mod mirror;
mod of;
mod opening;
pub mod place;
pub mod rows;
mod writer;

pub use claim::Claim;
pub use connection::Conn;
pub use db::{Calls, Db, POOL_SIZE};
pub use error::DbError;
pub use migrations::Migrations;
pub use of::Of;
pub use opening::Location;
