//! The API database: mappings, flavors, and the operations in flight with their journal.
//!
//! [`ApiDb`] holds what users and operators define and where everything is, one file per aggregate; `operations`,
//! `leases`, `cancellations`, `ownership` and `debts` are the sagas' own.

pub mod aggregates;
pub mod build_requests;
pub mod cancellations;
pub mod cell_mappings;
pub mod clear_contexts;
pub mod debts;
pub mod flavors;
pub mod host_mappings;
pub mod instance_mappings;
pub mod key_pairs;
pub mod leases;
pub mod mapping_backfill;
pub mod operations;
pub mod ownership;
pub mod project_servers;
pub mod publications;
pub mod queued_deletes;
mod quota_turns;
pub mod quotas;
pub mod request_specs;
pub(in crate::db) mod schema;
pub mod server_groups;

use super::Db;

/// The API database.
#[derive(Clone)]
pub struct ApiDb {
    db: Db,
}

impl ApiDb {
    /// The API database behind `db`, which was opened with [`super::Schema::Api`].
    pub fn new(db: Db) -> ApiDb {
        ApiDb { db }
    }

    /// The database itself.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

#[cfg(test)]
mod tests;
