//! Migration records, with their types and states.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::flavor::Resources;
use super::instance::Instance;
use super::server::named_states;

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

/// A migration record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Migration {
    /// The row's key in this cell; 0 before it is stored. Clients see [`Migration::number`].
    pub id: i32,
    pub uuid: Uuid,
    pub instance_uuid: Uuid,
    pub created_at: DateTime<Utc>,
    pub updated_at: Option<DateTime<Utc>>,
    pub migration_type: MigrationType,
    pub status: MigrationStatus,
    pub source_compute: String,
    pub source_node: String,
    /// The target's host name; none before a target is chosen.
    pub dest_compute: Option<String>,
    pub dest_node: Option<String>,
    /// The target's address.
    pub dest_host: Option<String>,
    /// The flavors' public ids.
    pub old_flavor_id: String,
    pub new_flavor_id: String,
    /// The flavors' ids in the API database, which `os-migrations` shows.
    pub old_instance_type_id: i32,
    pub new_instance_type_id: i32,
    pub cross_cell_move: bool,
    pub hidden: bool,
    /// The user who asked for the move.
    pub user_id: String,
    pub project_id: String,
    /// The record's key in the cell where the move began; none in that cell itself.
    #[serde(default)]
    pub first_id: Option<i32>,
}

impl Migration {
    /// Returns the record of a move of this server that has just begun: it has no places, no flavors and no requester yet.
    pub fn new(uuid: Uuid, server: Uuid, migration_type: MigrationType, created_at: DateTime<Utc>) -> Migration {
        Migration {
            id: 0,
            uuid,
            instance_uuid: server,
            created_at,
            updated_at: None,
            migration_type,
            status: MigrationStatus::PreMigrating,
            source_compute: String::new(),
            source_node: String::new(),
            dest_compute: None,
            dest_node: None,
            dest_host: None,
            old_flavor_id: String::new(),
            new_flavor_id: String::new(),
            old_instance_type_id: 0,
            new_instance_type_id: 0,
            cross_cell_move: false,
            hidden: false,
            user_id: String::new(),
            project_id: String::new(),
            first_id: None,
        }
    }

    /// Returns the id that clients see: the same in all cells, wherever the server goes.
    pub fn number(&self) -> i32 {
        self.first_id.unwrap_or(self.id)
    }

    /// Returns the moment of the last change.
    pub fn last_change(&self) -> DateTime<Utc> {
        self.updated_at.unwrap_or(self.created_at)
    }
}

/// A host's claim for a move, under the migration's uuid, which both cells know.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MigrationContext {
    pub migration_uuid: Uuid,
    pub context: serde_json::Value,
}

/// A change of a migration record. `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MigrationChange {
    pub status: Option<MigrationStatus>,
    pub dest_compute: Option<Option<String>>,
    pub dest_node: Option<Option<String>>,
    pub dest_host: Option<Option<String>>,
    pub cross_cell_move: Option<bool>,
    pub hidden: Option<bool>,
}

impl MigrationChange {
    /// Changes the status only.
    pub fn status(status: MigrationStatus) -> MigrationChange {
        MigrationChange { status: Some(status), ..MigrationChange::default() }
    }

    /// Changes the target only, or clears it.
    pub fn target(host: Option<&str>, node: Option<&str>, address: Option<&str>) -> MigrationChange {
        MigrationChange {
            dest_compute: Some(host.map(str::to_owned)),
            dest_node: Some(node.map(str::to_owned)),
            dest_host: Some(address.map(str::to_owned)),
            ..MigrationChange::default()
        }
    }
}

/// Selects migration records. All conditions that are set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MigrationFilter {
    pub uuids: Option<Vec<Uuid>>,
    pub instance_uuid: Option<Uuid>,
    /// An empty list allows any status.
    pub statuses: Vec<MigrationStatus>,
    pub migration_type: Option<MigrationType>,
    /// The source or target host.
    pub host: Option<String>,
    pub source_compute: Option<String>,
    pub hidden: Option<bool>,
    pub user_id: Option<String>,
    pub project_id: Option<String>,
    /// Changed at or after this moment; a record that never changed counts by its creation.
    pub changes_since: Option<DateTime<Utc>>,
    pub changes_before: Option<DateTime<Utc>>,
    /// Only records after the record with this creation time and uuid.
    pub after: Option<(DateTime<Utc>, Uuid)>,
    pub limit: Option<i64>,
}

/// A move that waits for confirm or revert, with its server as it is at the target.
#[derive(Clone, PartialEq, Debug)]
pub struct UnconfirmedMove {
    pub migration: Migration,
    pub server: Instance,
}

impl UnconfirmedMove {
    /// Returns the moment since which the move waits.
    pub fn since(&self) -> DateTime<Utc> {
        self.migration.last_change()
    }

    /// Returns the room that the source keeps for the server.
    pub fn room(&self) -> Resources {
        let flavor = self.server.old_flavor.as_ref().unwrap_or(&self.server.flavor);
        flavor.resources(self.server.is_volume_backed())
    }
}
