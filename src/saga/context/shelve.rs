//! The parts of a shelve, of the offload of a shelved server, and of an unshelve.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::{chooses_a_host, part};
use super::transfers::{image_read, image_stored, moves_no_bytes};
use super::{Candidates, HostNeed, Part, Place, Rules};
use crate::db::cell::instance_list::InstanceView;
use crate::domain::host_transfer::HostTransfer;
use crate::domain::quota::Limits;
use crate::domain::server::{TaskState, VmState};
use crate::domain::zone_request::ZoneRequest;
use crate::saga::error::StepError;
use crate::saga::steps::shelf;

/// The event of a server that leaves its host.
pub const OFFLOAD_EVENT: &str = "compute_shelve_offload_instance";

/// A request for a shelve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShelveRequest {
    /// True if the server leaves its host at once.
    pub offload: bool,
}

/// A request for an unshelve.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UnshelveRequest {
    /// The zone of the server from now on.
    pub zone: ZoneRequest,
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// The project's limits, checked again once the room is claimed; none if the server counts while it is shelved.
    pub limits: Option<Limits>,
    /// The limits that the server's user has beside the project's, checked with them.
    #[serde(default)]
    pub user_limits: Limits,
    /// True if a host of another cell may get the server.
    #[serde(default)]
    pub cross_cell_allowed: bool,
}

impl UnshelveRequest {
    /// True if the request says where the server must go, which only a server without a host can follow.
    pub fn names_a_place(&self) -> bool {
        self.host.is_some() || self.zone != ZoneRequest::AsBefore
    }
}

part! {
    /// A shelve.
    Shelve of ShelveRequest {}
}

impl Shelve {
    /// True if the server leaves its host in this operation. On a volume it always does, because there is no disk to keep on the host.
    pub fn offloads(&self) -> bool {
        self.request.offload || self.volume_backed
    }

    /// Returns the image of the root disk; none if a volume has it.
    pub fn image(&self) -> Option<Uuid> {
        (!self.volume_backed).then(|| self.derived_id("shelved"))
    }
}

impl Part for Shelve {
    fn rules(&self) -> Rules {
        Rules {
            first_task_state: Some(TaskState::Shelving),
            keeps_memory: false,
            copies_disks: true,
            waits_for_moves_debts: true,
            ..Rules::new("shelve", &[VmState::Active, VmState::Stopped, VmState::Paused, VmState::Suspended])
        }
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Source
    }

    fn transfers(&self) -> Vec<HostTransfer> {
        Vec::from_iter(image_stored(self.source.as_ref(), self.image()))
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![(if self.volume_backed { OFFLOAD_EVENT } else { "compute_shelve_instance" }, self.here())]
    }
}

part! {
    /// A shelved server leaves its host.
    ShelveOffload of nothing {}
}

impl Part for ShelveOffload {
    fn rules(&self) -> Rules {
        Rules {
            verb: "shelve_offload",
            first_task_state: Some(TaskState::ShelvingOffloading),
            waits_for_moves_debts: true,
            ..Rules::new("shelveOffload", &[VmState::Shelved])
        }
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![(OFFLOAD_EVENT, self.here())]
    }
}

part! {
    /// An unshelve: on the server's host, or on a chosen host if it has none.
    Unshelve of Box<UnshelveRequest> {
        #[serde(flatten)]
        candidates: Candidates,
        /// The cell of the server's record.
        #[serde(default)]
        home: Option<String>,
        /// The image of the root disk; none if a volume has it.
        #[serde(default)]
        image: Option<Uuid>,
    }
}

impl Unshelve {
    /// Returns the cell of the server's record; refused before the operation is accepted.
    pub fn home(&self) -> Result<&str, StepError> {
        self.home.as_deref().ok_or_else(|| StepError::Refused("the server is in no cell".into()))
    }

    /// True if the chosen host is in another cell than the server's record. False before the choice.
    pub fn leaves_its_cell(&self) -> bool {
        matches!((&self.home, &self.target), (Some(home), Some(target)) if *home != target.cell)
    }

    /// True if the server is still on its host. False before the operation is accepted.
    pub fn stays(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.vm_state == VmState::Shelved)
    }
}

impl Part for Unshelve {
    fn rules(&self) -> Rules {
        let allowed_states: &'static [VmState] = match self.request.names_a_place() {
            true => &[VmState::ShelvedOffloaded],
            false => &[VmState::Shelved, VmState::ShelvedOffloaded],
        };
        Rules {
            first_task_state: Some(TaskState::Unshelving),
            copies_disks: true,
            waits_for_moves_debts: true,
            ..Rules::new("unshelve", allowed_states)
        }
    }

    chooses_a_host!();

    fn here(&self) -> Option<&Place> {
        self.target_or_source()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::SourceIfAny
    }

    fn read_record(&mut self, cell: &str, view: &InstanceView) {
        (self.home, self.image) = (Some(cell.to_owned()), shelf::image_of(&view.instance.system_metadata));
        self.new_flavor = Some(view.instance.flavor.clone());
    }

    /// A server that stayed on its host keeps its disks there.
    fn transfers(&self) -> Vec<HostTransfer> {
        let image = self.image.filter(|_| !self.volume_backed);
        Vec::from_iter(image_read(self.target.as_ref(), image))
    }

    /// The steps record the events of a server without a host: its first ones belong to no host.
    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        self.source.as_ref().map(|here| ("compute_start_instance", Some(here))).into_iter().collect()
    }
}
