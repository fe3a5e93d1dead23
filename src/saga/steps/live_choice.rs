//! The target of a live migration: chosen by the scheduler, or named and not checked by it; then asked whether the guest could come.

use super::allocation::{claim_checked, next_candidate, scheduling_error, target_spec};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::notification::{Event, Phase};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::request_spec::RequestSpec;
use crate::saga::claim::Claimed;
use crate::saga::context::{LiveMigrate, Place};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::scheduling::{Candidate, OperationKind, RequestedDestination, SelectDestinations, SourceHost, claim_candidate};
use crate::saga::step_name::StepName;
use crate::saga::steps::port_shares::{read_requests, refuse_forced};
use crate::saga::world::World;
use crate::services::ServiceError;

/// The target's event: the pre-check.
const CHECK: &str = "compute_check_can_live_migrate_destination";

/// Has the scheduler choose and claim a host of the server's cell. A named host is the only one. After a refusal it is asked again without the
/// hosts that refused, until the limit of retries or until no host is left.
pub async fn select_live_destination(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<Claimed, StepError> {
    let spec = target_spec(context)?;
    check_retries(world, context)?;
    disks_allow(context)?;
    read_requests(world, context).await?;
    if let Some(host) = context.request.host.clone().filter(|_| context.request.unchecked) {
        return take_unchecked(world, context, fence, &host, &spec).await;
    }
    let source = context.source()?.clone();
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::Start), &source).await;
    let destination = RequestedDestination::of_move(&source.cell, context.request.host.clone(), false);
    let from = SourceHost { cell: source.cell.clone(), host: source.host.clone() };
    let mut demand = SelectDestinations {
        operation: OperationKind::LiveMigrate,
        port_requests: context.port_requests(),
        alternates: Some(0),
        fence,
        claim: true,
        ..SelectDestinations::of_move(spec, context.new_resources(), from, destination)
    };
    demand.ignore_hosts.extend(context.candidates.refusals.iter().map(|(host, _)| host.clone()));
    let selection = world.scheduling.select_destinations(demand).await.map_err(|error| with_refusals(scheduling_error(error), context))?;
    let LiveMigrate { facts, candidates, .. } = &mut *context;
    let claimed = selection.record(facts, candidates)?;
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::End), &source).await;
    Ok(claimed)
}

/// Refuses if no further host may be asked: the named one has refused, or as many as the configuration allows.
fn check_retries(world: &World, context: &LiveMigrate) -> Result<(), StepError> {
    let refused = context.candidates.refusals.len();
    let allowed = if context.request.host.is_some() { Some(0) } else { world.settings.migrate_max_retries };
    match allowed.filter(|allowed| refused > *allowed) {
        Some(allowed) => Err(StepError::Refused(reason!(
            "Exceeded max scheduling retries {allowed} for instance {} during live migration. {}",
            context.server,
            tried(context)
        ))),
        None => Ok(()),
    }
}

/// Returns the hosts that refused, for operators alone.
fn tried(context: &LiveMigrate) -> Reason {
    let refusals: Vec<String> = context.candidates.refusals.iter().map(|(host, why)| format!("{host}: {why}")).collect();
    Reason::inside(format!("Tried {}", refusals.join("; ")))
}

/// Adds the hosts that refused to the reason why no other is found.
fn with_refusals(error: StepError, context: &LiveMigrate) -> StepError {
    match error {
        StepError::Refused(why) if !context.candidates.refusals.is_empty() => StepError::Refused(why.and(&tried(context))),
        other => other,
    }
}

/// Refuses a `block_migration` that does not suit the server's disks: hosts share no disks but volumes.
fn disks_allow(context: &LiveMigrate) -> Result<(), StepError> {
    let server = context.server;
    match (context.request.block_migration, context.has_local_disks()) {
        (Some(false), true) => Err(StepError::Refused(reason!(
            "{server} is not on shared storage: it has disks on its host, so block_migration must be true or auto."
        ))),
        (Some(true), false) => Err(StepError::Refused(reason!(
            "{server} is not on local storage: it has no disk on its host, so block_migration must be false or auto."
        ))),
        _ => Ok(()),
    }
}

/// Takes a named host without the filters. What would break the guest is checked, and placement's capacity holds all the same.
async fn take_unchecked(
    world: &World,
    context: &mut LiveMigrate,
    fence: Fence,
    host: &str,
    spec: &RequestSpec,
) -> Result<Claimed, StepError> {
    let (source, server) = (context.source()?.clone(), context.server);
    if host == source.host {
        return Err(StepError::Refused(reason!("Unable to migrate instance ({server}) to current host ({host}).")));
    }
    let (node, here) = (world.node_on(&source.cell, host).await?, world.node_on(&source.cell, &source.host).await?);
    let place = Place {
        cell: source.cell.clone(),
        host: host.to_owned(),
        node: node.hypervisor_hostname.clone(),
        provider: node.uuid,
        availability_zone: Some(world.zone_of(host).await?),
    };
    if !world.is_up(&place).await? {
        return Err(StepError::Refused(reason!("Compute service of {host} is unavailable at this time.")));
    }
    if node.hypervisor_type != here.hypervisor_type {
        let (theirs, ours) = (&node.hypervisor_type, &here.hypervisor_type);
        return Err(StepError::Refused(reason!("The hypervisor type of host {host} is {theirs}, and the instance needs {ours}.")));
    }
    if node.hypervisor_version < here.hypervisor_version {
        return Err(StepError::Refused(reason!("The hypervisor of host {host} is older than the one on which the instance runs.")));
    }
    refuse_forced(world, context, host).await?;
    let candidate = Candidate {
        cell: place.cell.clone(),
        cell_uuid: world.cell_uuid(&place.cell)?,
        host: place.host.clone(),
        node: place.node.clone(),
        provider: place.provider,
        availability_zone: place.availability_zone.clone(),
        allocation: context.new_resources().by_class(),
        grants: Vec::new(),
    };
    match claim_candidate(world.placement.as_ref(), fence, server, &candidate, spec).await {
        Err(ServiceError::Conflict(why)) => {
            let unmoved = reason!("Unable to move instance {server} to host {host}: {why}");
            Err(StepError::Refused(Reason::no_valid_host(unmoved)))
        }
        other => {
            let claimed = other?;
            context.go_to(&candidate)?;
            Ok(claimed)
        }
    }
}

/// Asks the target whether the guest could come. If not, the next candidate is tried.
pub async fn check_at_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let (target, cell) = (context.target()?.clone(), context.source()?.cell.clone());
    let begun = history::event_started(CellTxn::new(), context, CHECK, Some(&target));
    world.cell(&cell)?.apply(fence, begun).await?;
    let answer = world.ask(context, &target, fence, HostCommand::CheckLiveTarget).await;
    answer.map_err(|error| next_candidate(error, &target))?;
    let done = history::event_done(CellTxn::new(), context, CHECK, Some(&target));
    Ok(world.cell(&cell)?.apply(fence, done).await?)
}

/// Has the target claim room, after a last look at the server's group.
pub async fn claim_live_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    claim_checked(world, context, fence, &target).await
}
