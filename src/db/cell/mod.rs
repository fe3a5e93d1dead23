//! A cell's database: its servers with all their records, its moves, services and compute nodes.
//!
//! Writes are collected in a [`CellTxn`]. [`CellDb::apply`] commits them as an effect of a saga, under its fence;
//! [`CellDb::apply_unfenced`] commits a user's or a host's own write. Each aggregate's file adds its changes to `CellTxn` and its reads to
//! `CellDb`.

pub mod actions;
pub mod agents;
pub mod audit;
pub mod block_devices;
pub mod bundle;
pub mod compute_nodes;
pub mod faults;
#[cfg(test)]
pub mod fixture;
pub mod host_records;
mod instance_change;
pub mod instance_filter;
pub mod instance_list;
mod instance_row;
mod instance_sort;
pub mod instances;
pub mod metadata;
pub mod migrations;
pub mod network;
pub mod notified;
pub mod retention;
pub(in crate::db) mod schema;
pub mod services;
pub mod unconfirmed;
pub mod usage;

use chrono::{DateTime, Utc};

use super::mirror::Mirror;
use super::{Conn, Db, DbError};
use crate::domain::fence::Fence;

/// A cell's database.
#[derive(Clone)]
pub struct CellDb {
    db: Db,
    host_records: Mirror<host_records::HostRecords>,
}

type Change = Box<dyn FnOnce(&mut Conn, DateTime<Utc>) -> Result<(), DbError> + Send>;

/// Changes that are committed together in the order of their addition. If one is refused, none is made.
#[derive(Default)]
#[must_use = "nothing is written until it is applied"]
pub struct CellTxn {
    changes: Vec<Change>,
}

impl CellTxn {
    /// Makes an empty transaction.
    pub fn new() -> CellTxn {
        CellTxn::default()
    }

    /// Adds all changes of `other` at the end.
    pub fn then(mut self, other: CellTxn) -> CellTxn {
        self.changes.extend(other.changes);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Conn, DateTime<Utc>) -> Result<(), DbError> + Send + 'static) -> CellTxn {
        self.changes.push(Box::new(change));
        self
    }
}

impl CellDb {
    /// Wraps `db`, which was opened with [`super::Schema::Cell`].
    pub fn new(db: Db) -> CellDb {
        CellDb { db, host_records: Mirror::default() }
    }

    /// Returns the connection pool behind this database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Commits the changes as an effect of an operation. [`DbError::Stale`] if a higher fence has written here.
    pub async fn apply(&self, fence: Fence, txn: CellTxn) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write_fenced(fence, move |conn| run(conn, now, txn)).await
    }

    /// Commits changes that belong to no operation: edits by users and reports by hosts.
    pub async fn apply_unfenced(&self, txn: CellTxn) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db.write(move |conn| run(conn, now, txn)).await
    }
}

fn run(conn: &mut Conn, now: DateTime<Utc>, txn: CellTxn) -> Result<(), DbError> {
    txn.changes.into_iter().try_for_each(|change| change(conn, now))
}

#[cfg(test)]
mod tests;
