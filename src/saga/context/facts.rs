//! The facts that all operations share: the head, and the server as the operation found it.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Kind, Shares};
use crate::domain::context::RequestContext;
use crate::domain::flavor::{Flavor, Resources};
use crate::domain::reason::{Reason, ReasonCode};
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{PowerState, VmState};
use crate::saga::error::StepError;
use crate::saga::scheduling::Candidate;

/// A compute host with its place in the cloud.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The cell's name.
    pub cell: String,
    pub host: String,
    /// The hypervisor's name, which is the placement provider's name.
    pub node: String,
    /// The placement provider.
    pub provider: Uuid,
    pub availability_zone: Option<String>,
}

impl fmt::Display for Place {
    /// Writes `cell/host`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cell, self.host)
    }
}

impl From<&Candidate> for Place {
    fn from(candidate: &Candidate) -> Place {
        Place {
            cell: candidate.cell.clone(),
            host: candidate.host.clone(),
            node: candidate.node.clone(),
            provider: candidate.provider,
            availability_zone: candidate.availability_zone.clone(),
        }
    }
}

/// A server's state when the operation took it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prior {
    pub vm_state: VmState,
    /// The guest runs again when the operation fails and, after a move, when it succeeds.
    pub running: bool,
    pub launched: bool,
}

impl Prior {
    /// Returns the power state of the guest in this state.
    pub fn power(&self) -> PowerState {
        match self.vm_state {
            VmState::Paused => PowerState::Paused,
            VmState::Suspended => PowerState::Suspended,
            _ if self.running => PowerState::Running,
            _ => PowerState::Shutdown,
        }
    }
}

/// A volume of the server, with its attachments in a move. Their ids derive from the move's, so that a retry makes no second one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeLink {
    pub volume_id: Uuid,
    pub device_name: String,
    pub boot_index: Option<i32>,
    /// Connects the volume to the source host.
    pub source_attachment: Uuid,
    /// Holds the volume for the source while the source has no guest.
    pub placeholder: Uuid,
    /// Connects the volume to the target host.
    pub target_attachment: Uuid,
}

/// A port of the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortLink {
    pub port_id: Uuid,
    pub mac: String,
    /// True if the port was made for the server, and is deleted with it.
    pub made_for_server: bool,
}

/// The head of every operation: who wants it, for which server, under which lease, and how it fares.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The saga's id; a move's migration record has the same.
    pub saga: Uuid,
    pub kind: Kind,
    pub caller: RequestContext,
    pub server: Uuid,
    /// The server's owner.
    pub project_id: String,
    pub user_id: String,
    pub display_name: String,
    /// The move that this operation makes or ends; none before the operation is accepted.
    pub migration: Option<Uuid>,
    /// The lease under which commits of ownership are made; set by the runner.
    pub lease_epoch: i64,
    /// Why the saga unwinds; set by the runner before the first undo.
    pub error: Option<Reason>,
    /// True if the saga unwinds because a user wants it; set by the runner.
    #[serde(default)]
    pub cancelled: bool,
    /// True if the guest may not run as it should: the server ends in ERROR with the reason.
    pub service_lost: bool,
    /// True if no debt brings the guest back: its user must rebuild or hard-reboot the server.
    #[serde(default)]
    pub guest_lost: bool,
    /// Always false, and read by no code of this release. Release 0.1.0 cannot read a stored context without this member.
    #[serde(rename = "settling", default)]
    for_older_releases: bool,
}

impl Head {
    pub(super) fn new(saga: Uuid, kind: Kind, caller: RequestContext, server: Uuid) -> Head {
        Head {
            saga,
            kind,
            project_id: caller.project_id.clone(),
            user_id: caller.user_id.clone(),
            caller,
            server,
            display_name: String::new(),
            migration: None,
            lease_epoch: 0,
            error: None,
            cancelled: false,
            service_lost: false,
            guest_lost: false,
            for_older_releases: false,
        }
    }

    /// Returns the id of the move's migration record, under which the source's resources are kept.
    pub fn move_id(&self) -> Uuid {
        self.migration.unwrap_or(self.saga)
    }

    /// Returns an id that belongs to a move and a purpose: the same on a retry, and in the confirm or revert that ends the move.
    pub fn derived_id(&self, purpose: &str) -> Uuid {
        Uuid::new_v5(&self.move_id(), purpose.as_bytes())
    }

    /// True if the saga unwinds for a reason of this kind.
    pub fn has_failed_with(&self, code: ReasonCode) -> bool {
        self.error.as_ref().and_then(Reason::code) == Some(code)
    }
}

/// The server as the operation found it, and where it goes. The steps that several operations share take these facts. Most are none until
/// the operation is accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerFacts {
    #[serde(flatten)]
    pub head: Head,
    pub volume_backed: bool,
    pub prior: Option<Prior>,
    /// The server's request spec before the operation.
    pub request_spec: Option<RequestSpec>,
    /// Where the server is when the operation begins. While a move waits for confirm or revert: the move's source.
    pub source: Option<Place>,
    /// Where the server goes, or went with the move that waits for confirm or revert.
    pub target: Option<Place>,
    pub old_flavor: Option<Flavor>,
    pub new_flavor: Option<Flavor>,
    pub ports: Vec<PortLink>,
    pub volumes: Vec<VolumeLink>,
    /// The shares of the ports in the hosts' networks; none if the operation has not read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

impl ServerFacts {
    pub(super) fn new(head: Head) -> ServerFacts {
        ServerFacts {
            head,
            volume_backed: false,
            prior: None,
            request_spec: None,
            source: None,
            target: None,
            old_flavor: None,
            new_flavor: None,
            ports: Vec::new(),
            volumes: Vec::new(),
            shares: None,
        }
    }

    /// Returns the source of the operation; refused if the server has no host.
    pub fn source(&self) -> Result<&Place, StepError> {
        self.source.as_ref().ok_or_else(|| StepError::Refused("the server has no host".into()))
    }

    /// Returns the target of the move; refused before one is chosen.
    pub fn target(&self) -> Result<&Place, StepError> {
        self.target.as_ref().ok_or_else(|| StepError::Refused("no target host was chosen".into()))
    }

    /// Returns the target of an unfinished move, else the host on which the server was found.
    pub fn target_or_source(&self) -> Option<&Place> {
        self.target.as_ref().or(self.source.as_ref())
    }

    /// True if source and target lie in different cells.
    pub fn crosses_cells(&self) -> bool {
        matches!((&self.source, &self.target), (Some(source), Some(target)) if source.cell != target.cell)
    }

    /// True if the guest runs again when the operation is over or undone.
    pub fn ran_before(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.running)
    }

    /// True if the server was paused when the operation took it.
    pub fn was_paused(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.vm_state == VmState::Paused)
    }

    /// True if the server has disks on its host: a root disk that is no volume, or ephemeral or swap disks (NOVA-DIFFERENCES L18).
    pub fn has_local_disks(&self) -> bool {
        let extra = |flavor: &Flavor| flavor.ephemeral_gb > 0 || flavor.swap_mb > 0;
        !self.volume_backed || self.old_flavor.as_ref().is_some_and(extra)
    }

    /// Returns the resources that the new flavor takes.
    pub fn new_resources(&self) -> Resources {
        self.new_flavor.as_ref().map(|flavor| flavor.resources(self.volume_backed)).unwrap_or_default()
    }
}

impl Deref for ServerFacts {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl DerefMut for ServerFacts {
    fn deref_mut(&mut self) -> &mut Head {
        &mut self.head
    }
}

/// The hosts among which an operation chooses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Candidates {
    /// Candidates that have not been tried.
    pub alternates: Vec<Candidate>,
    /// Candidates that refused, with the reason.
    pub refusals: Vec<(String, Reason)>,
}

impl Candidates {
    /// Returns the names of all of them.
    pub fn hosts(&self) -> Vec<&str> {
        let refused = self.refusals.iter().map(|(host, _)| host.as_str());
        self.alternates.iter().map(|candidate| candidate.host.as_str()).chain(refused).collect()
    }
}
