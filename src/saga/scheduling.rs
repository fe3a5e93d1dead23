//! How a saga chooses a host: the request to the scheduler, its answer, and the claim of a host in placement
//! (INVARIANTS C1 to C10).

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::fence::Fence;
use crate::domain::flavor::Resources;
use crate::domain::request_spec::RequestSpec;
use crate::env::guard::{Guard, stands};
use crate::services::ServiceError;
use crate::services::placement::{Allocations, PlacementService};

/// What the host is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OperationKind {
    /// A new server.
    Create,
    /// A move to another flavor.
    Resize,
    /// A cold migration: the flavor stays.
    Migrate,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OperationKind::Create => "create",
            OperationKind::Resize => "resize",
            OperationKind::Migrate => "migrate",
        })
    }
}

/// Where the server is now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceHost {
    /// The cell's name.
    pub cell: String,
    /// The host's name.
    pub host: String,
}

/// Where a move may or must go (INVARIANTS C1 to C3).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestedDestination {
    /// Without `allow_cross_cell_move` the only cell that is asked, with it the preferred one.
    pub cell: Option<String>,
    /// Policy lets this server leave its cell.
    pub allow_cross_cell_move: bool,
    /// The one host that will do. Nothing else is tried, and no cell is preferred.
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
    /// The server's request; its flavor is the one that is wanted (a resize puts the new one in).
    pub request_spec: RequestSpec,
    /// What is to be claimed.
    pub resources: Resources,
    /// Traits that the provider must have, besides those that the flavor's `trait:` extra specs require.
    pub required_traits: Vec<String>,
    /// How many alternates are wanted at most; none for as many as the configuration allows (`max_attempts` - 1).
    pub alternates: Option<usize>,
    /// What the host is wanted for.
    pub operation: OperationKind,
    /// Where the server is now; none for a new server.
    pub source: Option<SourceHost>,
    /// Hosts that will not do, whatever the filters say.
    pub ignore_hosts: Vec<String>,
    /// The host that an administrator forced at creation. Only `Create` looks at it (INVARIANTS C5); it skips the filters that judge
    /// preference and keeps those without which the host cannot work.
    pub forced_host: Option<String>,
    /// Where a move may or must go; none for anywhere.
    pub requested_destination: Option<RequestedDestination>,
    /// Orders the claim among the server's other effects.
    pub fence: Fence,
    /// Who gets the allocation: the server.
    pub consumer: Uuid,
    /// Claim the primary. What the consumer holds is then given up first: the caller must have moved what it wants to
    /// keep to another consumer (INVARIANTS D4), and what an earlier try of the same step left is no loss.
    pub claim: bool,
}

/// A host that will do.
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
    /// What the server takes there, by resource class.
    pub allocation: BTreeMap<String, i64>,
}

/// The scheduler's choice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Selection {
    /// The best host; claimed when the request said so.
    pub primary: Candidate,
    /// The next best of the primary's cell (INVARIANTS C8), best first; not claimed. See [`claim_candidate`].
    pub alternates: Vec<Candidate>,
}

/// Why there is no choice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum SchedulingError {
    /// No host will do. Starts with "No valid host was found." and says, for operators alone, what removed the hosts.
    #[error("{reason}")]
    NoValidHost {
        /// A sentence for the instance action.
        reason: String,
    },
    /// The scheduler or something it needs does not answer, or it has too much to do: try again later. A claim may or may
    /// not have been made.
    #[error("the scheduler is unavailable: {reason}")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// A higher fence was obeyed: the request is late, and nothing is claimed.
    #[error("{reason}")]
    Stale {
        /// What placement said.
        reason: String,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
}

/// The scheduler, as sagas address it.
#[async_trait]
pub trait Scheduling: Send + Sync {
    /// Chooses and claims. Asking again under the same fence may choose another host and leaves one claim.
    async fn select_destinations(&self, request: SelectDestinations) -> Result<Selection, SchedulingError>;

    /// The late check (NOVA-DIFFERENCES L25): whether `server` may be on `host` by the policy of `group`, judged by what all members hold
    /// now. `NoValidHost` when not. The caller has claimed the host before it asks; of two controllers that do this for two members, at
    /// least one then sees the other.
    async fn check_group_policy(&self, group: Uuid, server: Uuid, host: &str) -> Result<(), SchedulingError>;
}

/// Claims a host for a consumer: afterwards the consumer holds exactly the candidate's allocation, wherever its allocation
/// was before. Used by the scheduler for the primary and by sagas for an alternate. Conflict when the host has no more room.
pub async fn claim_candidate(
    placement: &dyn PlacementService,
    fence: Fence,
    consumer: Uuid,
    candidate: &Candidate,
    request_spec: &RequestSpec,
) -> Result<(), ServiceError> {
    let allocations = BTreeMap::from([(candidate.provider, candidate.allocation.clone())]);
    replace_claim(placement, fence, consumer, allocations, request_spec).await
}

/// Gives up whatever the consumer holds; fine when it holds nothing.
pub async fn release_claim(
    placement: &dyn PlacementService,
    fence: Fence,
    consumer: Uuid,
    request_spec: &RequestSpec,
) -> Result<(), ServiceError> {
    // The fence first: a claim that comes late must not fall between the reading and the change.
    if stands(Guard::TombstoneOfClaim) {
        placement.replace_allocations(fence, Vec::new()).await?;
    }
    replace_claim(placement, fence, consumer, BTreeMap::new(), request_spec).await
}

async fn replace_claim(
    placement: &dyn PlacementService,
    fence: Fence,
    consumer: Uuid,
    allocations: BTreeMap<Uuid, BTreeMap<String, i64>>,
    request_spec: &RequestSpec,
) -> Result<(), ServiceError> {
    let present = placement.allocations_of(consumer).await?;
    let change = Allocations {
        consumer,
        consumer_generation: present.and_then(|held| held.consumer_generation),
        project_id: request_spec.project_id.clone(),
        user_id: request_spec.user_id.clone(),
        consumer_type: "INSTANCE".to_owned(),
        allocations,
    };
    placement.replace_allocations(fence, vec![change]).await
}
