//! Versioned notifications: event types, payloads, and the envelope that consumers read.

pub mod instance;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::server::named_states;

named_states! {
    /// Urgency.
    Priority {
        /// Everything that goes as wanted.
        Info = "INFO",
        /// Something failed.
        Error = "ERROR",
    }
}

named_states! {
    /// The part of an operation that a notification speaks of.
    Phase {
        /// It begins.
        Start = "start",
        /// It is done.
        End = "end",
        /// It failed.
        Error = "error",
    }
}

named_states! {
    /// What happens to a server, as the middle part of `instance.<action>.<phase>`.
    InstanceAction {
        /// Create.
        Create = "create",
        /// Delete.
        Delete = "delete",
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
        /// Rebuild.
        Rebuild = "rebuild",
        /// Hard or soft reboot.
        Reboot = "reboot",
        /// Start.
        PowerOn = "power_on",
        /// Stop.
        PowerOff = "power_off",
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

/// What a notification says happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// `instance.<action>.<phase>`.
    Instance(InstanceAction, Phase),
    /// `instance.exists`: sent once in a revert, between start and end.
    InstanceExists,
    /// `scheduler.select_destinations.<phase>`.
    SelectDestinations(Phase),
    /// `compute_task.migrate_server.error`: a move, a confirm or a revert failed.
    MigrateServerError,
    /// `compute.exception`: a host refused or failed.
    ComputeException,
    /// `cell.down`: a cell does not answer any more.
    CellDown,
    /// `cell.up`: it answers again.
    CellUp,
    /// `instance.queued_delete.<phase>`: a delete that had to wait was carried out (end), or refused after all (error).
    QueuedDelete(Phase),
    /// `chaos.fault.<phase>`: an experiment does something on purpose.
    ChaosFault(Phase),
}

impl Event {
    /// The event type that consumers filter by.
    pub fn event_type(self) -> String {
        match self {
            Event::Instance(action, phase) => format!("instance.{action}.{phase}"),
            Event::InstanceExists => "instance.exists".to_owned(),
            Event::SelectDestinations(phase) => format!("scheduler.select_destinations.{phase}"),
            Event::MigrateServerError => "compute_task.migrate_server.error".to_owned(),
            Event::ComputeException => "compute.exception".to_owned(),
            Event::CellDown => "cell.down".to_owned(),
            Event::CellUp => "cell.up".to_owned(),
            Event::QueuedDelete(phase) => format!("instance.queued_delete.{phase}"),
            Event::ChaosFault(phase) => format!("chaos.fault.{phase}"),
        }
    }

    /// How urgent it is.
    pub fn priority(self) -> Priority {
        match self {
            Event::Instance(_, Phase::Error) | Event::SelectDestinations(Phase::Error) | Event::QueuedDelete(Phase::Error) => {
                Priority::Error
            }
            Event::MigrateServerError | Event::ComputeException | Event::CellDown => Priority::Error,
            _ => Priority::Info,
        }
    }

    /// The payload's object name and version.
    fn payload_object(self) -> (&'static str, &'static str) {
        match self {
            Event::Instance(InstanceAction::Create, _) => ("InstanceCreatePayload", "1.12"),
            Event::Instance(InstanceAction::ResizePrep, _) => ("InstanceActionResizePrepPayload", "1.3"),
            Event::Instance(InstanceAction::Rebuild, _) => ("InstanceActionRebuildPayload", "1.9"),
            Event::Instance(InstanceAction::VolumeAttach | InstanceAction::VolumeDetach, _) => ("InstanceActionVolumePayload", "1.6"),
            Event::Instance(..) => ("InstanceActionPayload", "1.8"),
            Event::InstanceExists => ("InstanceExistsPayload", "1.3"),
            Event::SelectDestinations(_) => ("RequestSpecPayload", "1.1"),
            Event::MigrateServerError => ("ComputeTaskPayload", "1.0"),
            Event::ComputeException => ("ExceptionPayload", "1.1"),
            Event::CellDown | Event::CellUp => ("CellHealthPayload", "1.0"),
            Event::QueuedDelete(_) => ("QueuedDeletePayload", "1.0"),
            Event::ChaosFault(_) => ("ChaosFaultPayload", "1.0"),
        }
    }

    /// The payload around `data` (a JSON object: the server's fields, see [`InstanceFields`](instance::InstanceFields), the task's, or
    /// the cell's): the versioned object, and beside it the id of the server (or cell) at the top level, where consumers find it
    /// whatever the event (ops API).
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

/// One notification before it has a place in the order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// The migration or other operation it belongs to.
    pub operation: Uuid,
    /// The step of the operation; with operation and event this is the key under which a second one is not sent.
    pub step: String,
    /// What happened.
    pub event: Event,
    /// Who says so: service and host, as `nova-compute:cell1-host1`.
    pub publisher_id: String,
    /// See [`Event::payload`].
    pub payload: Value,
}

impl Notification {
    /// The message's id: the same for every repetition of one step's event, so that consumers too can drop a repetition.
    pub fn message_id(&self) -> Uuid {
        Uuid::new_v5(&self.operation, format!("{}/{}", self.step, self.event.event_type()).as_bytes())
    }
}

/// What consumers read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// The place in the order; 1 is the first.
    pub sequence: u64,
    /// As `instance.resize.start`.
    pub event_type: String,
    /// INFO or ERROR.
    pub priority: Priority,
    /// Service and host.
    pub publisher_id: String,
    /// UTC, as `2026-11-20 12:00:00.000000`.
    pub timestamp: String,
    /// The same for a repetition.
    pub message_id: Uuid,
    /// The versioned object.
    pub payload: Value,
}
