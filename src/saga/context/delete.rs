//! The part of a delete.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{HostNeed, Part, Place, Request, Rules, ServerFacts};
use crate::db::cell::instance_list::InstanceView;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::migration::MigrationStatus;
use crate::domain::server::{TaskState, VmState};
use crate::saga::steps::shelf;

/// The ways to delete a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deletion {
    ForGood,
    /// A soft delete.
    Deferred,
    /// A delete for good of a soft-deleted server whose time has ended.
    OfReclaimed,
}

part! {
    /// A delete, or a soft delete.
    Delete {
        /// Volumes that are deleted with the server.
        volumes_to_delete: Vec<Uuid>,
        /// The image of a shelved server's root disk.
        #[serde(default)]
        shelved_image: Option<Uuid>,
        /// True for a soft delete: the server's user may restore it for a while.
        #[serde(default)]
        deferred: bool,
        /// True if the time of a soft-deleted server has ended. A server that its user restores meanwhile stays.
        #[serde(default)]
        reclaims: bool,
    }
}

impl Request {
    /// Returns the operation that a queued delete asks for.
    pub fn of_delete(request: &DeleteRequest) -> Request {
        if request.deferred { Request::SoftDelete } else { Request::Delete }
    }
}

impl Delete {
    pub(super) fn begin(facts: ServerFacts, deletion: Deletion) -> Delete {
        let (deferred, reclaims) = (deletion == Deletion::Deferred, deletion == Deletion::OfReclaimed);
        Delete { facts, volumes_to_delete: Vec::new(), shelved_image: None, deferred, reclaims }
    }

    /// Makes this a delete for good if nothing of the server could be restored: it never ran, or it is on no host.
    pub fn defer_only_what_can_be_restored(&mut self) {
        let launched = self.prior.as_ref().is_some_and(|prior| prior.launched);
        self.deferred &= launched && self.here().is_some();
    }
}

impl Part for Delete {
    fn rules(&self) -> Rules {
        use VmState::{Active, Building, Error, Paused, Rescued, Resized, Shelved, ShelvedOffloaded, SoftDeleted, Stopped, Suspended};
        const ALL: &[VmState] =
            &[Building, Active, Paused, Suspended, Rescued, Stopped, Resized, Error, Shelved, ShelvedOffloaded, SoftDeleted];
        Rules {
            needs_launch: false,
            first_task_state: Some(if self.deferred { TaskState::SoftDeleting } else { TaskState::Deleting }),
            ignores_task: true,
            waits_for_turn: false,
            // A move that waits for confirm is confirmed on the way.
            ended_move: self.target.as_ref().map(|_| MigrationStatus::Confirming),
            ends_any_move: true,
            ..Rules::new("delete", if self.reclaims { &[SoftDeleted] } else { ALL })
        }
    }

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        let event = if self.deferred { "compute_soft_delete_instance" } else { "compute_terminate_instance" };
        vec![(event, self.here())]
    }

    /// The end of the server's time is no reason to end what its user does with it.
    fn has_others_make_room(&self) -> bool {
        !self.reclaims
    }

    fn delete_to_follow(&self, at: DateTime<Utc>) -> Option<DeleteRequest> {
        self.has_others_make_room().then(|| DeleteRequest::in_sight(self.caller.clone(), at).deferred(self.deferred))
    }

    fn read_record(&mut self, _: &str, view: &InstanceView) {
        let go_along = view.details.block_devices.iter().filter(|device| device.delete_on_termination);
        self.volumes_to_delete = go_along.filter_map(|device| device.volume_id).collect();
        self.shelved_image = shelf::image_of(&view.instance.system_metadata);
        self.defer_only_what_can_be_restored();
    }
}
