//! The records of cellshift: one [`Db`] per schema and place (the API's, one per cell, the embedded services'), on SQLite or PostgreSQL.
//!
//! `cellshift-store` opens databases of either kind and knows no table; its modules have their names here. `schema` has the migrations that
//! make our tables, and `deployment` checks a database's owner. `api` and `cell` hold the records, one file per aggregate; the embedded services
//! bring their tables with them (`cellshift-embedded`).

pub mod api;
pub mod cell;
pub mod deployment;
#[cfg(test)]
pub mod fixture;
pub mod retention;
mod row;
mod schema;

pub use cellshift_store::{
    Calls, Claim, Conn, Db, DbError, Location, Of, POOL_SIZE, columns, connection, error, fence, merged, mirror, place,
};
use cellshift_store::{clock, rows};
pub use schema::Schema;
