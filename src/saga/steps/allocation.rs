//! The choice of a host, and the room for a server: allocations in placement and claims of hosts.

use std::collections::BTreeMap;

use crate::db::api::group_places::GroupPlace;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_network::FunctionWish;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::notification::{Event, InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::reason::{Inside, Reason};
use crate::domain::request_spec::RequestSpec;
use crate::env::guard::{Guard, stands};
use crate::saga::claim::Claimed;
use crate::saga::context::{Candidates, Head, Place, Resize, ServerFacts};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::scheduling::{
    OperationKind, RequestedDestination, SchedulingError, SelectDestinations, SourceHost, claim_candidate, release_claim,
};
use crate::saga::step_name::StepName;
use crate::saga::steps::port_functions::wishes;
use crate::saga::steps::port_shares::read_requests;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::placement::Allocations;

/// Gives the server's allocation to the migration as its consumer, so that the scheduler can claim for the server.
pub async fn hold_source_allocation(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<Claimed, StepError> {
    let held = world.placement.allocations_of(context.move_id()).await?;
    if held.is_some() {
        return Ok(Claimed::made());
    }
    let own = world.placement.allocations_of(context.server).await?;
    let Some(own) = own else {
        return Err(StepError::Refused(reason!("Instance {} has no allocation to hold", context.server)));
    };
    let migration =
        Allocations { consumer: context.move_id(), consumer_generation: None, consumer_type: "MIGRATION".into(), ..own.clone() };
    let none = Allocations { allocations: BTreeMap::new(), ..own };
    world.placement.replace_allocations(fence, vec![none, migration]).await?;
    Ok(Claimed::made())
}

/// Gives up what the migration holds at its source.
pub async fn drop_source_allocation(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(held) = world.placement.allocations_of(context.move_id()).await? else { return Ok(()) };
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none]).await?)
}

/// Undo: gives the migration's allocation back to the server, and gives up what the server holds elsewhere, in one request.
pub async fn return_source_allocation(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    match held_for_good(world, context, fence).await? {
        Some(held) => give_to_server(world, context, fence, held).await,
        None => Ok(()),
    }
}

/// Payment of [`return_source_allocation`]: nobody gets the allocation of a server that is gone.
pub async fn pay_source_allocation(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(held) = held_for_good(world, context, fence).await? else { return Ok(()) };
    if debt::cell_of(world, context).await?.is_some() {
        return give_to_server(world, context, fence, held).await;
    }
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none]).await?)
}

/// Returns what the migration holds, once a late act can no longer change it: the fence is raised before the look.
async fn held_for_good(world: &World, context: &ServerFacts, fence: Fence) -> Result<Option<Allocations>, StepError> {
    if stands(Guard::TombstoneOfClaim) {
        world.placement.replace_allocations(fence, Vec::new()).await?;
    }
    Ok(world.placement.allocations_of(context.move_id()).await?)
}

/// Gives the server the migration's allocation in place of its own.
async fn give_to_server(world: &World, context: &ServerFacts, fence: Fence, held: Allocations) -> Result<(), StepError> {
    let own = world.placement.allocations_of(context.server).await?;
    let server = Allocations {
        consumer: context.server,
        consumer_generation: own.and_then(|own| own.consumer_generation),
        consumer_type: "INSTANCE".into(),
        ..held.clone()
    };
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none, server]).await?)
}

/// Has the scheduler choose and claim a host; after a refusal, claims the next alternate.
pub async fn select_destination(world: &World, context: &mut Resize, fence: Fence) -> Result<Claimed, StepError> {
    let spec = target_spec(context)?;
    if !context.candidates.refusals.is_empty() {
        let Resize { facts, candidates, .. } = context;
        return claim_next_alternate(world, facts, candidates, fence, &spec).await;
    }
    read_requests(world, context).await?;
    let request = &context.request;
    let source = context.source()?.clone();
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::Start), &source).await;
    let destination = RequestedDestination::of_move(&source.cell, request.host.clone(), request.cross_cell_allowed);
    let from = SourceHost { cell: source.cell.clone(), host: source.host.clone() };
    let demand = SelectDestinations {
        operation: if request.migrate { OperationKind::Migrate } else { OperationKind::Resize },
        port_requests: context.port_requests(),
        fence,
        claim: true,
        ..SelectDestinations::of_move(spec, context.new_resources(), from, destination)
    };
    let selection = world.scheduling.select_destinations(demand).await.map_err(scheduling_error)?;
    let Resize { facts, candidates, .. } = &mut *context;
    let claimed = selection.record(facts, candidates)?;
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::End), &source).await;
    Ok(claimed)
}

/// Turns the scheduler's error into a step's.
pub fn scheduling_error(error: SchedulingError) -> StepError {
    match error {
        SchedulingError::NoValidHost { reason } | SchedulingError::Invalid { reason } => StepError::Refused(reason),
        SchedulingError::Unavailable { .. } => StepError::Unknown(reason!("{error}")),
        SchedulingError::Stale { reason } => StepError::Overtaken(reason),
    }
}

/// Claims the next alternate that accepts (INVARIANTS C8). Refused after the last, so that the saga unwinds.
pub async fn claim_next_alternate(
    world: &World,
    facts: &mut ServerFacts,
    candidates: &mut Candidates,
    fence: Fence,
    spec: &RequestSpec,
) -> Result<Claimed, StepError> {
    while !candidates.alternates.is_empty() {
        let candidate = candidates.alternates.remove(0);
        match claim_candidate(world.placement.as_ref(), fence, facts.server, &candidate, spec).await {
            Ok(claimed) => {
                facts.go_to(&candidate)?;
                return Ok(claimed);
            }
            Err(ServiceError::Conflict(why)) => candidates.refusals.push((candidate.host, why)),
            Err(other) => return Err(other.into()),
        }
    }
    let tried: Vec<String> = candidates.refusals.iter().map(|(host, why)| format!("{host}: {why}")).collect();
    let tried = Inside(format!("Tried {}", tried.join("; ")));
    Err(StepError::Refused(reason!("Exceeded max scheduling attempts for instance {}. {tried}", facts.server)))
}

/// Undo: gives the claim up.
pub async fn release_destination(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let spec = target_spec(context)?;
    Ok(release_claim(world.placement.as_ref(), fence, context.server, &spec).await?)
}

/// Payment of a move's [`release_destination`]. If the migration holds nothing any more, the undo of [`hold_source_allocation`] has replaced
/// the claim with the server's earlier allocation, which stays.
pub async fn pay_destination(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    match world.placement.allocations_of(context.move_id()).await? {
        Some(_) => release_destination(world, context, fence).await,
        None => Ok(()),
    }
}

/// Returns the request spec with the new flavor.
pub fn target_spec(context: &ServerFacts) -> Result<RequestSpec, StepError> {
    let spec = context.request_spec.clone().ok_or_else(|| StepError::Refused("the server has no request spec".into()))?;
    let flavor = context.new_flavor.clone().unwrap_or_else(|| spec.flavor.clone());
    Ok(RequestSpec { flavor, ..spec })
}

/// Has the target host claim room for the server. If the host refuses or does not answer, the next alternate is tried.
pub async fn claim_at_target(world: &World, context: &mut Resize, fence: Fence) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    let event = prep_event(context);
    let here = Place { cell: context.source()?.cell.clone(), ..target.clone() };
    let begun = history::event_started(CellTxn::new(), context, event, Some(&target));
    let notification = (StepName::ClaimAtTarget, InstanceAction::ResizePrep, Phase::Start);
    history::apply_and_notify(world, context, fence, begun, notification, &here).await?;
    let claimed = claim_checked(world, context, fence, &target).await?;
    let done = history::event_done(CellTxn::new(), context, event, Some(&target));
    history::apply_and_notify(world, context, fence, done, (StepName::ClaimAtTarget, InstanceAction::ResizePrep, Phase::End), &here)
        .await?;
    Ok(claimed)
}

/// Takes the server's place in its group, and has the target claim room. If the policy, the host or its silence
/// stands against it, the next candidate is tried.
pub async fn claim_checked(world: &World, context: &mut ServerFacts, fence: Fence, target: &Place) -> Result<Claimed, StepError> {
    take_group_place(world, context, fence, target).await?;
    let functions = wishes(world, context).await?;
    claim(world, context, fence, functions).await.map_err(|error| next_candidate(error, target))
}

/// Takes the server's place in its group, if it has one (NOVA-DIFFERENCES L25). If the group's rule forbids the host by now, the next
/// candidate is tried.
pub async fn take_group_place(world: &World, context: &ServerFacts, fence: Fence, target: &Place) -> Result<(), StepError> {
    let Some(group) = context.request_spec.as_ref().and_then(|spec| spec.instance_group) else { return Ok(()) };
    let place = GroupPlace {
        group,
        server: context.server,
        saga: context.saga,
        host: target.host.clone(),
        source_host: context.source.as_ref().map(|source| source.host.clone()),
    };
    match world.api.take_group_place(fence, place).await? {
        None => Ok(()),
        Some(why) => Err(StepError::NextCandidate(Reason::no_valid_host(reason!(
            "There are not enough hosts available. {}",
            Inside(reason!("{}: {why}.", target.host))
        )))),
    }
}

/// Takes the candidate's refusal or silence as a reason to try the next one.
pub fn next_candidate(error: StepError, target: &Place) -> StepError {
    match error {
        StepError::Refused(why) => {
            StepError::NextCandidate(reason!("Migration pre-check error: Pre-checks failed on host {}: {why}", target.host))
        }
        StepError::Unknown(why) => {
            StepError::NextCandidate(reason!("Migration pre-check error: host {} did not answer: {why}", target.host))
        }
        other => other,
    }
}

/// Undo: gives the room back.
pub async fn drop_claim_at_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    drop_claim(world, context, fence, &target).await
}

/// Returns the name of the target's first event.
fn prep_event(context: &ServerFacts) -> &'static str {
    if context.crosses_cells() { "compute_prep_snapshot_based_resize_at_dest" } else { "compute_prep_resize" }
}

/// Makes a failed pre-check's error, in Nova's words.
pub fn precheck(why: &str) -> StepError {
    StepError::Refused(reason!("Migration pre-check error: {why}"))
}

/// Has the target host claim room for the new flavor, and these virtual functions for ports. Refused if the host gives none, as an older
/// one would, before a binding could name them.
pub async fn claim(world: &World, context: &mut ServerFacts, fence: Fence, functions: Vec<FunctionWish>) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    let wants_functions = !functions.is_empty();
    let claim = HostCommand::Claim { holder: context.server, resources: context.new_resources(), functions };
    match world.ask(context, &target, fence, claim).await? {
        HostReply::Claimed { functions } => context.take_functions(&functions),
        _ if wants_functions => return Err(StepError::Refused(reason!("host {} gives no virtual functions to ports", target.host))),
        _ => {}
    }
    Ok(Claimed::made())
}

/// Has the host give the server's room back.
pub async fn drop_claim(world: &World, context: &Head, fence: Fence, place: &Place) -> Result<(), StepError> {
    world.ask(context, place, fence, HostCommand::DropClaim { holder: context.server }).await.map(drop)
}
