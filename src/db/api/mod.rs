//! The API database: mappings, flavors, and the operations in flight with their journal.
//!
//! [`ApiDb`] stores the definitions of users and operators and the places of servers, one file per aggregate. Sagas use `operations`,
//! `leases`, `cancellations`, `ownership` and `debts`.

pub mod aggregates;
mod append;
pub mod build_requests;
pub mod cancellations;
pub mod cell_mappings;
pub mod clear_contexts;
pub mod debts;
pub mod drains;
pub mod enrolments;
pub mod flavors;
pub mod group_moves;
pub mod group_places;
pub mod host_mappings;
pub mod instance_mappings;
mod journal;
pub mod key_pairs;
pub mod leases;
pub mod mapping_backfill;
mod move_times;
pub mod operations;
pub mod ownership;
pub mod project_servers;
pub mod publications;
pub mod queued_deletes;
mod quota_turns;
pub mod quotas;
pub mod request_specs;
pub mod retention;
pub(in crate::db) mod schema;
pub mod server_groups;
pub mod summary;

use super::Db;
use super::mirror::Mirror;

/// The API database.
#[derive(Clone)]
pub struct ApiDb {
    db: Db,
    memberships: Mirror<aggregates::Kept>,
}

impl ApiDb {
    /// Wraps `db`, which was opened with [`super::Schema::Api`].
    pub fn new(db: Db) -> ApiDb {
        ApiDb { db, memberships: Mirror::default() }
    }

    /// Returns the connection pool behind this database.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

#[cfg(test)]
mod tests;
