//! Migration records: their types and states.

use super::server::named_states;
use serde::{Deserialize, Serialize};

named_states! {
    /// The kind of move that a migration record describes.
    MigrationType {
        /// A resize: the flavor changes.
        Resize = "resize",
        /// A cold migration: the flavor stays.
        Migration = "migration",
    }
}

named_states! {
    /// The progress of a migration.
    MigrationStatus {
        /// Recorded; a target is being chosen and prepared.
        PreMigrating = "pre-migrating",
        /// The source host works.
        Migrating = "migrating",
        /// The source host has finished.
        PostMigrating = "post-migrating",
        /// At the target, waiting for confirm or revert.
        Finished = "finished",
        /// Confirm runs.
        Confirming = "confirming",
        /// Confirmed: the source is cleaned up.
        Confirmed = "confirmed",
        /// Revert runs.
        Reverting = "reverting",
        /// Reverted: the server is back at the source.
        Reverted = "reverted",
        /// Failed and undone.
        Error = "error",
    }
}

impl MigrationStatus {
    /// The statuses of a record that may still change. A server has at most one such record.
    pub const LIVE: [MigrationStatus; 6] = [
        MigrationStatus::PreMigrating,
        MigrationStatus::Migrating,
        MigrationStatus::PostMigrating,
        MigrationStatus::Finished,
        MigrationStatus::Confirming,
        MigrationStatus::Reverting,
    ];

    /// True while the record may still change.
    pub fn is_live(self) -> bool {
        MigrationStatus::LIVE.contains(&self)
    }
}
