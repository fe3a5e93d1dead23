//! The parts of a shelve, of the offload of a shelved server, and of an unshelve.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::part::part;
use super::{Candidates, HostNeed, Part, Place, ServerFacts, as_request};
use crate::db::cell::instance_list::InstanceView;
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

/// A shelve.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Shelve {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: ShelveRequest,
}

part!(Shelve);

impl Shelve {
    pub(super) fn begin(facts: ServerFacts, request: ShelveRequest) -> Shelve {
        Shelve { facts, request }
    }

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
    fn action(&self) -> &'static str {
        "shelve"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Active, VmState::Stopped, VmState::Paused, VmState::Suspended]
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Shelving)
    }

    fn keeps_memory(&self) -> bool {
        false
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Source
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![(if self.volume_backed { OFFLOAD_EVENT } else { "compute_shelve_instance" }, self.here())]
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}

/// A shelved server leaves its host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ShelveOffload {
    #[serde(flatten)]
    pub facts: ServerFacts,
}

part!(ShelveOffload);

impl ShelveOffload {
    pub(super) fn begin(facts: ServerFacts, (): ()) -> ShelveOffload {
        ShelveOffload { facts }
    }
}

impl Part for ShelveOffload {
    fn action(&self) -> &'static str {
        "shelveOffload"
    }

    fn verb(&self) -> &'static str {
        "shelve_offload"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        &[VmState::Shelved]
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::ShelvingOffloading)
    }

    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    fn host_need(&self) -> HostNeed {
        HostNeed::Nothing
    }

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        vec![(OFFLOAD_EVENT, self.here())]
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}

/// An unshelve: on the server's host, or on a chosen host if it has none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Unshelve {
    #[serde(flatten)]
    pub facts: ServerFacts,
    #[serde(with = "as_request")]
    pub request: Box<UnshelveRequest>,
    #[serde(flatten)]
    pub candidates: Candidates,
    /// The cell of the server's record.
    #[serde(default)]
    pub home: Option<String>,
    /// The image of the root disk; none if a volume has it.
    #[serde(default)]
    pub image: Option<Uuid>,
}

part!(Unshelve);

impl Unshelve {
    pub(super) fn begin(facts: ServerFacts, request: Box<UnshelveRequest>) -> Unshelve {
        Unshelve { facts, request, candidates: Candidates::default(), home: None, image: None }
    }

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
    fn action(&self) -> &'static str {
        "unshelve"
    }

    fn allowed_states(&self) -> &'static [VmState] {
        match self.request.names_a_place() {
            true => &[VmState::ShelvedOffloaded],
            false => &[VmState::Shelved, VmState::ShelvedOffloaded],
        }
    }

    fn copies_disks(&self) -> bool {
        true
    }

    fn first_task_state(&self) -> Option<TaskState> {
        Some(TaskState::Unshelving)
    }

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

    /// The steps record the events of a server without a host: its first ones belong to no host.
    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        self.source.as_ref().map(|here| ("compute_start_instance", Some(here))).into_iter().collect()
    }

    fn candidates(&self) -> Option<&Candidates> {
        Some(&self.candidates)
    }

    fn candidates_mut(&mut self) -> Option<&mut Candidates> {
        Some(&mut self.candidates)
    }

    fn waits_for_moves_debts(&self) -> bool {
        true
    }
}
