//! The choice of a host: the request to the scheduler, its answer, and the claim in placement (INVARIANTS C1 to C10).

use std::collections::BTreeMap;

use async_trait::async_trait;
use uuid::Uuid;

use crate::domain::fence::Fence;
use crate::domain::request_spec::RequestSpec;
pub use crate::domain::scheduling::{
    Candidate, OperationKind, PlannedMove, RequestedDestination, SchedulingError, SelectDestinations, SourceHost,
};
use crate::env::guard::{Guard, stands};
use crate::saga::claim::Claimed;
use crate::saga::context::{Candidates, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::explanation::Explanation;
use crate::services::ServiceError;
use crate::services::placement::{Allocations, PlacementService};

/// The scheduler's choice. The step that asked for it records it and returns the claim.
#[must_use = "the primary may be claimed: record the choice"]
#[derive(PartialEq, Eq, Debug)]
pub struct Selection {
    /// The best host; claimed when the request said so.
    pub primary: Candidate,
    /// The next best of the primary's cell (INVARIANTS C8), best first; not claimed. See [`claim_candidate`].
    pub alternates: Vec<Candidate>,
    /// The claim on the primary; none if the request asked for none.
    pub claimed: Option<Claimed>,
}

impl Selection {
    /// Records the primary as the target, and the alternates, and returns the claim. Refused if the scheduler has not claimed the primary.
    pub fn record(self, facts: &mut ServerFacts, candidates: &mut Candidates) -> Result<Claimed, StepError> {
        facts.go_to(&self.primary)?;
        candidates.alternates = self.alternates;
        self.claimed.ok_or_else(|| StepError::Refused("the scheduler has not claimed the host that it chose".into()))
    }
}

/// The scheduler's interface for sagas.
#[async_trait]
pub trait Scheduling: Send + Sync {
    /// Chooses and claims. A repetition under one fence may choose another host, and leaves one claim.
    async fn select_destinations(&self, request: SelectDestinations) -> Result<Selection, SchedulingError>;

    /// Returns the verdict on every host of every cell that answers, as if these planned moves had taken their room. Changes nothing.
    async fn explain(&self, request: SelectDestinations, planned: Vec<PlannedMove>) -> Result<Explanation, SchedulingError>;
}

/// Claims a host for a consumer: afterwards the consumer holds exactly the candidate's allocation. Conflict if the host has no more room.
/// The scheduler claims the primary with it, and sagas an alternate.
pub async fn claim_candidate(
    placement: &dyn PlacementService,
    fence: Fence,
    consumer: Uuid,
    candidate: &Candidate,
    request_spec: &RequestSpec,
) -> Result<Claimed, ServiceError> {
    replace_claim(placement, fence, consumer, candidate.allocations(), request_spec).await?;
    Ok(Claimed::made())
}

/// Gives up the consumer's allocation, if it has one.
pub async fn release_claim(
    placement: &dyn PlacementService,
    fence: Fence,
    consumer: Uuid,
    request_spec: &RequestSpec,
) -> Result<(), ServiceError> {
    // Raises the fence first: a late claim must not fall between the reading and the change.
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
