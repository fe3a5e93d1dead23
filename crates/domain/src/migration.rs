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
        /// A live migration: the guest runs on.
        LiveMigration = "live-migration",
        /// An evacuation: the server is built anew, because its host is down.
        Evacuation = "evacuation",
    }
}

named_states! {
    /// The progress of a migration.
    MigrationStatus {
        /// Recorded; nothing has been done yet.
        Accepted = "accepted",
        /// Live migration: waits for its turn at the source host.
        Queued = "queued",
        /// Live migration: the target host makes room for the guest.
        Preparing = "preparing",
        /// Live migration: the guest is copied while it runs.
        Running = "running",
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
        /// Evacuated, and the source host has been cleaned up. Live migration: the guest runs at the target.
        Completed = "completed",
        /// Failed and undone.
        Error = "error",
        /// Refused or failed at the target, and undone.
        Failed = "failed",
        /// Live migration: aborted; the guest runs on at the source.
        Cancelled = "cancelled",
        /// The scheduler refused the host that the caller named.
        Conflict = "conflict",
    }
}

impl MigrationStatus {
    /// The statuses of a record that may still change. A server has at most one such record.
    pub const LIVE: [MigrationStatus; 10] = [
        MigrationStatus::Accepted,
        MigrationStatus::Queued,
        MigrationStatus::Preparing,
        MigrationStatus::Running,
        MigrationStatus::PreMigrating,
        MigrationStatus::Migrating,
        MigrationStatus::PostMigrating,
        MigrationStatus::Finished,
        MigrationStatus::Confirming,
        MigrationStatus::Reverting,
    ];

    /// The statuses of a record that never changes again. An evacuation that is `done` is in neither list: it holds nothing up, and
    /// becomes `completed`.
    pub const OVER: [MigrationStatus; 7] = [
        MigrationStatus::Confirmed,
        MigrationStatus::Reverted,
        MigrationStatus::Completed,
        MigrationStatus::Error,
        MigrationStatus::Failed,
        MigrationStatus::Cancelled,
        MigrationStatus::Conflict,
    ];

    /// True while the record may still change.
    pub fn is_live(self) -> bool {
        MigrationStatus::LIVE.contains(&self)
    }
}
