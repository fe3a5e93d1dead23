//! Versioned notifications: event types, payloads, and the envelope that consumers read.

pub mod instance;
pub mod oslo;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::named_states;

named_states! {
    /// The urgency of a notification.
    Priority {
        /// No failure.
        Info = "INFO",
        /// A failure.
        Error = "ERROR",
    }
}

named_states! {
    /// The part of an operation that a notification reports.
    Phase {
        /// The beginning.
        Start = "start",
        /// The successful end.
        End = "end",
        /// The failure.
        Error = "error",
    }
}

named_states! {
    /// The operation on a server: the middle part of `instance.<action>.<phase>`.
    InstanceAction {
        /// Create.
        Create = "create",
        /// Delete.
        Delete = "delete",
        /// Soft delete.
        SoftDelete = "soft_delete",
        /// A soft-deleted server is restored.
        Restore = "restore",
        /// Resize and migrate: the target host claims.
        ResizePrep = "resize_prep",
        /// Resize and migrate: the source host works.
        Resize = "resize",
        /// Resize and migrate: the target host builds the guest.
        ResizeFinish = "resize_finish",
        /// Confirm.
        ResizeConfirm = "resize_confirm",
        /// Revert.
        ResizeRevert = "resize_revert",
        /// Live migration: the target host makes room for the guest.
        LiveMigrationPre = "live_migration_pre",
        /// Live migration: the source host lets go.
        LiveMigrationPost = "live_migration_post",
        /// Live migration: the guest runs at the target.
        LiveMigrationPostDest = "live_migration_post_dest",
        /// Live migration: the guest stays at the source.
        LiveMigrationRollback = "live_migration_rollback",
        /// Live migration: the target host removes what had come.
        LiveMigrationRollbackDest = "live_migration_rollback_dest",
        /// Live migration: a user's abort is carried out.
        LiveMigrationAbort = "live_migration_abort",
        /// Live migration: a user ends the copy by force.
        LiveMigrationForceComplete = "live_migration_force_complete",
        /// Rebuild.
        Rebuild = "rebuild",
        /// Hard or soft reboot.
        Reboot = "reboot",
        /// Snapshot or backup.
        Snapshot = "snapshot",
        /// Shelve.
        Shelve = "shelve",
        /// A shelved server leaves its host.
        ShelveOffload = "shelve_offload",
        /// Unshelve.
        Unshelve = "unshelve",
        /// Start.
        PowerOn = "power_on",
        /// Stop.
        PowerOff = "power_off",
        /// Pause.
        Pause = "pause",
        /// Unpause.
        Unpause = "unpause",
        /// Suspend.
        Suspend = "suspend",
        /// Resume.
        Resume = "resume",
        /// Rescue.
        Rescue = "rescue",
        /// Unrescue.
        Unrescue = "unrescue",
        /// The guest is told to dump its memory.
        TriggerCrashDump = "trigger_crash_dump",
        /// A volume is attached.
        VolumeAttach = "volume_attach",
        /// A volume is detached.
        VolumeDetach = "volume_detach",
        /// A port is attached.
        InterfaceAttach = "interface_attach",
        /// A port is detached.
        InterfaceDetach = "interface_detach",
    }
}

/// The event that a notification reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// `instance.<action>.<phase>`.
    Instance(InstanceAction, Phase),
    /// `instance.exists`: sent once in a revert, between start and end.
    InstanceExists,
    /// `instance.evacuate`: an evacuation was accepted.
    InstanceEvacuate,
    /// `instance.rebuild_scheduled`: a host was chosen for an evacuated server.
    InstanceRebuildScheduled,
    /// `scheduler.select_destinations.<phase>`.
    SelectDestinations(Phase),
    /// `compute_task.migrate_server.error`: a move, a confirm or a revert failed.
    MigrateServerError,
    /// `compute_task.rebuild_server.error`: an evacuation failed.
    RebuildServerError,
    /// `compute.exception`: a host refused or failed.
    ComputeException,
    /// `cell.down`: a cell has stopped answering.
    CellDown,
    /// `cell.up`: a cell answers again.
    CellUp,
    /// `instance.queued_delete.<phase>`: a queued delete was carried out (end) or refused (error).
    QueuedDelete(Phase),
    /// `chaos.fault.<phase>`: an injected fault.
    ChaosFault(Phase),
}

impl Event {
    /// Returns the event type, by which consumers filter.
    pub fn event_type(self) -> String {
        match self {
            Event::Instance(action, phase) => format!("instance.{action}.{phase}"),
            Event::InstanceExists => "instance.exists".to_owned(),
            Event::InstanceEvacuate => "instance.evacuate".to_owned(),
            Event::InstanceRebuildScheduled => "instance.rebuild_scheduled".to_owned(),
            Event::SelectDestinations(phase) => format!("scheduler.select_destinations.{phase}"),
            Event::MigrateServerError => "compute_task.migrate_server.error".to_owned(),
            Event::RebuildServerError => "compute_task.rebuild_server.error".to_owned(),
            Event::ComputeException => "compute.exception".to_owned(),
            Event::CellDown => "cell.down".to_owned(),
            Event::CellUp => "cell.up".to_owned(),
            Event::QueuedDelete(phase) => format!("instance.queued_delete.{phase}"),
            Event::ChaosFault(phase) => format!("chaos.fault.{phase}"),
        }
    }

    /// Returns the urgency.
    pub fn priority(self) -> Priority {
        match self {
            Event::Instance(_, Phase::Error) | Event::SelectDestinations(Phase::Error) | Event::QueuedDelete(Phase::Error) => {
                Priority::Error
            }
            Event::MigrateServerError | Event::RebuildServerError | Event::ComputeException | Event::CellDown => Priority::Error,
            _ => Priority::Info,
        }
    }

    /// Returns the payload's object name and version.
    fn payload_object(self) -> (&'static str, &'static str) {
        match self {
            Event::Instance(InstanceAction::Create, _) => ("InstanceCreatePayload", "1.12"),
            Event::Instance(InstanceAction::ResizePrep, _) => ("InstanceActionResizePrepPayload", "1.3"),
            Event::Instance(InstanceAction::Rebuild, _) => ("InstanceActionRebuildPayload", "1.9"),
            Event::Instance(InstanceAction::VolumeAttach | InstanceAction::VolumeDetach, _) => ("InstanceActionVolumePayload", "1.6"),
            Event::InstanceRebuildScheduled => ("InstanceActionRebuildPayload", "1.9"),
            Event::Instance(..) | Event::InstanceEvacuate => ("InstanceActionPayload", "1.8"),
            Event::InstanceExists => ("InstanceExistsPayload", "1.3"),
            Event::SelectDestinations(_) => ("RequestSpecPayload", "1.1"),
            Event::MigrateServerError | Event::RebuildServerError => ("ComputeTaskPayload", "1.0"),
            Event::ComputeException => ("ExceptionPayload", "1.1"),
            Event::CellDown | Event::CellUp => ("CellHealthPayload", "1.0"),
            Event::QueuedDelete(_) => ("QueuedDeletePayload", "1.0"),
            Event::ChaosFault(_) => ("ChaosFaultPayload", "1.0"),
        }
    }

    /// Wraps `data` (a JSON object: the server's fields, see [`InstanceFields`](instance::InstanceFields), the task's, or the cell's) in a
    /// versioned object. Beside it the payload has the server's (or cell's) id at the top level, in the same place for all events.
    pub fn payload(self, subject: Uuid, data: Value) -> Value {
        let (name, version) = self.payload_object();
        json!({
            "nova_object.name": name,
            "nova_object.namespace": "nova",
            "nova_object.version": version,
            "nova_object.data": data,
            "uuid": subject,
        })
    }
}

/// A notification that has no sequence number yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// The migration or other operation of this notification.
    pub operation: Uuid,
    /// The operation's step. Operation, step and event are the key by which repetitions are dropped.
    pub step: String,
    /// The event.
    pub event: Event,
    /// The publisher's service and host, as `nova-compute:cell1-host1`.
    pub publisher_id: String,
    /// See [`Event::payload`].
    pub payload: Value,
}

impl Notification {
    /// Returns the message's id, which is equal for each repetition of a step's event, so that consumers can also drop repetitions.
    pub fn message_id(&self) -> Uuid {
        Uuid::new_v5(&self.operation, format!("{}/{}", self.step, self.event.event_type()).as_bytes())
    }
}

/// The form of a notification for consumers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// The sequence number; the first is 1.
    pub sequence: u64,
    /// For example `instance.resize.start`.
    pub event_type: String,
    /// INFO or ERROR.
    pub priority: Priority,
    /// Service and host.
    pub publisher_id: String,
    /// UTC, as `2026-11-20 12:00:00.000000`.
    pub timestamp: String,
    /// Equal for repetitions.
    pub message_id: Uuid,
    /// The versioned object.
    pub payload: Value,
}
