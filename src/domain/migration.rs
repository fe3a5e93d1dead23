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
        /// An evacuation: the server is built anew, because its host is down.
        Evacuation = "evacuation",
    }
}

named_states! {
    /// The progress of a migration.
    MigrationStatus {
        /// Recorded; nothing has been done yet.
        Accepted = "accepted",
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
        /// Evacuated: the server is at its target, and its source host, which is down, is still to be cleaned up.
        Done = "done",
        /// Evacuated, and the source host has been cleaned up.
        Completed = "completed",
        /// Failed and undone.
        Error = "error",
        /// Refused at the target, and undone.
        Failed = "failed",
        /// The scheduler refused the host that the caller named.
        Conflict = "conflict",
    }
}

impl MigrationStatus {
    /// The statuses of a record that may still change. A server has at most one such record.
    pub const LIVE: [MigrationStatus; 7] = [
        MigrationStatus::Accepted,
        MigrationStatus::PreMigrating,
        MigrationStatus::Migrating,
        MigrationStatus::PostMigrating,
        MigrationStatus::Finished,
        MigrationStatus::Confirming,
        MigrationStatus::Reverting,
    ];

    /// The statuses of a record that never changes again. An evacuation that is `done` is in neither list: it holds nothing up, and
    /// becomes `completed`.
    pub const OVER: [MigrationStatus; 6] = [
        MigrationStatus::Confirmed,
        MigrationStatus::Reverted,
        MigrationStatus::Completed,
        MigrationStatus::Error,
        MigrationStatus::Failed,
        MigrationStatus::Conflict,
    ];
}
