//! The question to the scheduler and its answer: which hosts a server may have, and which it gets (INVARIANTS C1 to C10).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::fence::Fence;
use crate::flavor::Resources;
use crate::port_request::{Grant, PortRequest};
use crate::reason::Reason;
use crate::request_spec::RequestSpec;

/// The purpose of the choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OperationKind {
    /// A new server.
    Create,
    /// A move to another flavor.
    Resize,
    /// A cold migration; the flavor stays the same.
    Migrate,
    /// A live migration.
    LiveMigrate,
    /// A shelved server without a host comes back.
    Unshelve,
    /// An evacuation from a host that is down; the flavor stays the same.
    Evacuate,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OperationKind::Create => "create",
            OperationKind::Resize => "resize",
            OperationKind::Migrate => "migrate",
            OperationKind::LiveMigrate => "live migrate",
            OperationKind::Unshelve => "unshelve",
            OperationKind::Evacuate => "evacuate",
        })
    }
}

/// The server's present host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceHost {
    /// The cell's name.
    pub cell: String,
    /// The host's name.
    pub host: String,
}

/// The cells and hosts to which a move may go (INVARIANTS C1 to C3).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestedDestination {
    /// The only cell, or with `allow_cross_cell_move` the preferred one.
    pub cell: Option<String>,
    /// Policy lets this server leave its cell.
    pub allow_cross_cell_move: bool,
    /// The only acceptable host. No cell is preferred then.
    pub host: Option<String>,
}

impl RequestedDestination {
    /// The destination of a move from `source_cell` by INVARIANTS C1 to C3: `host` as the caller named it, `allow_cross_cell_move` as
    /// policy, versions and ports decide.
    pub fn of_move(source_cell: &str, host: Option<String>, allow_cross_cell_move: bool) -> RequestedDestination {
        let cell = (host.is_none() || !allow_cross_cell_move).then(|| source_cell.to_owned());
        RequestedDestination { cell, allow_cross_cell_move, host }
    }
}

/// Choose a host and, unless told otherwise, claim it in placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SelectDestinations {
    /// The server's request spec with the new flavor.
    pub request_spec: RequestSpec,
    /// The resources to claim.
    pub resources: Resources,
    /// The resources that the server's ports ask of the host's network.
    #[serde(default)]
    pub port_requests: Vec<PortRequest>,
    /// Traits that the provider must have, besides those that the flavor's `trait:` extra specs require.
    pub required_traits: Vec<String>,
    /// The maximum number of alternates; none for the configuration's (`max_attempts` - 1).
    pub alternates: Option<usize>,
    /// The purpose of the choice.
    pub operation: OperationKind,
    /// Where the server is now; none for a new server.
    pub source: Option<SourceHost>,
    /// Hosts that are excluded, whatever the filters say.
    pub ignore_hosts: Vec<String>,
    /// The host that an administrator forced at creation. Only `Create` looks at it (INVARIANTS C5); it skips the filters that judge
    /// preference and keeps those without which the host cannot work.
    pub forced_host: Option<String>,
    /// Where a move may or must go; none for anywhere.
    pub requested_destination: Option<RequestedDestination>,
    /// Orders the claim among the server's other effects.
    pub fence: Fence,
    /// The consumer of the allocation: the server.
    pub consumer: Uuid,
    /// True to claim the primary. The consumer's present allocation is given up first, so the caller must have moved it to another consumer to
    /// keep it (INVARIANTS D4).
    pub claim: bool,
}

impl SelectDestinations {
    /// Makes the request of a server that is on no host, with a claim: a new server, or one that is unshelved.
    pub fn of_server_without_host(
        operation: OperationKind,
        request_spec: RequestSpec,
        resources: Resources,
        fence: Fence,
    ) -> SelectDestinations {
        SelectDestinations {
            resources,
            port_requests: Vec::new(),
            required_traits: Vec::new(),
            alternates: None,
            operation,
            source: None,
            ignore_hosts: Vec::new(),
            forced_host: None,
            requested_destination: None,
            fence,
            consumer: request_spec.instance_uuid,
            claim: true,
            request_spec,
        }
    }

    /// Makes the request of a resize or a cold migration from `source`, without a claim.
    pub fn of_move(
        request_spec: RequestSpec,
        resources: Resources,
        source: SourceHost,
        destination: RequestedDestination,
    ) -> SelectDestinations {
        let server = request_spec.instance_uuid;
        SelectDestinations {
            resources,
            port_requests: Vec::new(),
            required_traits: Vec::new(),
            alternates: None,
            operation: OperationKind::Migrate,
            // A move within one host would need two guests of one server, and hosts have no room for that.
            ignore_hosts: vec![source.host.clone()],
            source: Some(source),
            forced_host: None,
            requested_destination: Some(destination),
            fence: Fence { server, epoch: 0, attempt: 0 },
            consumer: server,
            claim: false,
            request_spec,
        }
    }
}

/// A move that is planned, and has not claimed its room yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedMove {
    /// The server.
    pub server: Uuid,
    /// The name of the host to which it goes.
    pub host: String,
    /// The amounts that the move will take there.
    pub resources: Resources,
    /// The requests that its ports make of the host's network.
    #[serde(default)]
    pub port_requests: Vec<PortRequest>,
}

/// A host that passes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// The cell's name.
    pub cell: String,
    /// The cell's id.
    pub cell_uuid: Uuid,
    /// The host's name.
    pub host: String,
    /// The hypervisor's name.
    pub node: String,
    /// The node's resource provider.
    pub provider: Uuid,
    /// The zone the host is in; none when no aggregate names one.
    pub availability_zone: Option<String>,
    /// The server's resources of the node's provider, by resource class.
    pub allocation: BTreeMap<String, i64>,
    /// The providers of the host's network that give the ports' resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

impl Candidate {
    /// Returns the amounts to claim, by provider and class.
    pub fn allocations(&self) -> BTreeMap<Uuid, BTreeMap<String, i64>> {
        let mut sums = BTreeMap::from([(self.provider, self.allocation.clone())]);
        for grant in &self.grants {
            for (class, amount) in &grant.resources {
                *sums.entry(grant.provider).or_default().entry(class.clone()).or_insert(0) += amount;
            }
        }
        sums
    }
}

/// The reason why no host is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum SchedulingError {
    /// No host passes. The text starts with "No valid host was found." and names the filters for operators alone.
    #[error("{reason}")]
    NoValidHost {
        /// A sentence for the instance action.
        reason: Reason,
    },
    /// The scheduler or a service behind it does not answer, or is busy. A claim may have been made.
    #[error("the scheduler is unavailable: {reason}")]
    Unavailable {
        /// The silent part.
        reason: Reason,
    },
    /// A higher fence was obeyed, so the request is late. Nothing is claimed.
    #[error("{reason}")]
    Stale {
        /// Placement's answer.
        reason: Reason,
    },
    /// The request is invalid.
    #[error("{reason}")]
    Invalid {
        /// A sentence for the caller.
        reason: Reason,
    },
}
