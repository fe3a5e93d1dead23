//! The steps of an evacuation at its target: the choice of a host, the claim, the guest that is built anew, and the record.

use super::allocation::{claim_checked, claim_next_alternate, scheduling_error, target_spec};
use super::guest::guest_spec;
use super::records::{arrival, new_migration, target_on_record};
use super::volumes::{attachments, complete_attachments, connect_volumes};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::{Migration, MigrationChange, MigrationStatus, MigrationType};
use crate::domain::notification::{Event, InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::reason::{Inside, Reason};
use crate::domain::request_spec::RequestSpec;
use crate::domain::secret::Secret;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::claim::Claimed;
use crate::saga::context::{Evacuate, Place, first_boot};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::scheduling::{Candidate, OperationKind, RequestedDestination, SelectDestinations, SourceHost, claim_candidate};
use crate::saga::step_name::StepName;
use crate::saga::steps::port_shares::{read_requests, refuse_forced};
use crate::saga::world::World;
use crate::services::ServiceError;

/// The event of the target's whole work.
const REBUILD_EVENT: &str = "compute_rebuild_instance";

/// Returns the migration's record, `accepted`.
pub async fn evacuation_record(world: &World, context: &Evacuate) -> Result<Migration, StepError> {
    let flavor = context.old_flavor.clone().unwrap_or_default();
    Ok(Migration {
        migration_type: MigrationType::Evacuation,
        status: MigrationStatus::Accepted,
        dest_compute: context.request.host.clone(),
        ..new_migration(world, context, &flavor).await?
    })
}

/// Creates the migration's record unless the accept has, as it has since release 0.2.0.
pub async fn record_evacuation(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let migration = evacuation_record(world, context).await?;
    world.cell(&source.cell)?.apply(fence, CellTxn::new().create_migration(migration)).await?;
    context.new_flavor = Some(context.old_flavor.clone().unwrap_or_default());
    history::emit(world, context, StepName::RecordMigration, Event::InstanceEvacuate, &source).await;
    Ok(())
}

/// Checks, before anything changes, that the image can be used and the guest's secrets can be read.
pub async fn check_image(world: &World, context: &mut Evacuate, _: Fence) -> Result<(), StepError> {
    first_boot::read(context, &world.env)?;
    let Some(id) = context.request.image_id else { return Ok(()) };
    let image = world.usable_image(context, id).await?;
    match image.status.as_str() {
        "active" => Ok(()),
        other => Err(StepError::Refused(reason!("Image {id} is {other}, not active."))),
    }
}

/// Has the scheduler choose and claim a host of the cell. After a refusal, claims the next alternate; a bypass claims the named host itself.
pub async fn select_for_evacuation(world: &World, context: &mut Evacuate, fence: Fence) -> Result<Claimed, StepError> {
    let (spec, source) = (target_spec(context)?, context.source()?.clone());
    if !context.candidates.refusals.is_empty() {
        let Evacuate { facts, candidates, .. } = context;
        return claim_next_alternate(world, facts, candidates, fence, &spec).await;
    }
    read_requests(world, context).await?;
    let claimed = match context.request.host.clone().filter(|_| context.request.bypasses_scheduler) {
        Some(host) => claim_bypassing(world, context, fence, &host, &spec).await?,
        None => ask_scheduler(world, context, fence, spec).await?,
    };
    history::emit(world, context, StepName::SelectDestination, Event::InstanceRebuildScheduled, &source).await;
    Ok(claimed)
}

async fn ask_scheduler(world: &World, context: &mut Evacuate, fence: Fence, spec: RequestSpec) -> Result<Claimed, StepError> {
    let source = context.source()?.clone();
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::Start), &source).await;
    let destination = RequestedDestination::of_move(&source.cell, context.request.host.clone(), false);
    let from = SourceHost { cell: source.cell.clone(), host: source.host.clone() };
    let demand = SelectDestinations {
        operation: OperationKind::Evacuate,
        port_requests: context.port_requests(),
        fence,
        claim: true,
        ..SelectDestinations::of_move(spec, context.new_resources(), from, destination)
    };
    let selection = world.scheduling.select_destinations(demand).await.map_err(scheduling_error)?;
    let Evacuate { facts, candidates, .. } = &mut *context;
    let claimed = selection.record(facts, candidates)?;
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::End), &source).await;
    Ok(claimed)
}

/// Claims the named host in placement, whose capacity holds for it, too. No filter judges it, but it must be of this cell and up.
async fn claim_bypassing(
    world: &World,
    context: &mut Evacuate,
    fence: Fence,
    host: &str,
    spec: &RequestSpec,
) -> Result<Claimed, StepError> {
    refuse_forced(world, context, host).await?;
    let cell = world.cell_of_host(host).await?;
    if cell != context.source()?.cell {
        return Err(StepError::Refused(reason!("Compute host {host} is in another cell, and an evacuation stays in its cell.")));
    }
    let node = world.node_on(&cell, host).await?;
    let candidate = Candidate {
        cell_uuid: world.cell_uuid(&cell)?,
        host: host.to_owned(),
        node: node.hypervisor_hostname,
        provider: node.uuid,
        availability_zone: Some(world.zone_of(host).await?),
        allocation: context.new_resources().by_class(),
        grants: Vec::new(),
        cell,
    };
    let place = Place::from(&candidate);
    if !world.is_up(&place).await? {
        return Err(StepError::Refused(reason!("Compute service of {host} is unavailable at this time.")));
    }
    match claim_candidate(world.placement.as_ref(), fence, context.server, &candidate, spec).await {
        Ok(claimed) => {
            context.go_to(&candidate)?;
            Ok(claimed)
        }
        Err(why @ (ServiceError::Conflict(_) | ServiceError::NotFound(_))) => {
            let why = Inside(format!("{host}: {why}"));
            Err(StepError::Refused(Reason::no_valid_host(reason!("The demanded host has no room. {why}"))))
        }
        Err(other) => Err(other.into()),
    }
}

/// Has the target host claim room for the server. If the host refuses or does not answer, the next alternate is tried.
pub async fn claim_for_evacuation(world: &World, context: &mut Evacuate, fence: Fence) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    let change = MigrationChange { status: Some(MigrationStatus::PreMigrating), ..target_on_record(&target, false) };
    let begun = history::event_started(CellTxn::new().migration_change(context.saga, change), context, REBUILD_EVENT, Some(&target));
    let event = (StepName::ClaimAtTarget, InstanceAction::Rebuild, Phase::Start);
    history::apply_and_notify(world, context, fence, begun, event, &target).await?;
    claim_checked(world, context, fence, &target).await
}

/// Has the target build the guest: a fresh root disk from the image, or the root volume, and the config drive. The guest is not started.
pub async fn build_at_target(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let task = InstanceChange::task(Some(TaskState::RebuildSpawning));
    world.cell(&target.cell)?.apply(fence, CellTxn::new().instance_change(context.server, task)).await?;
    let volumes = connect_volumes(world, context, fence, &target, |volume| volume.target_attachment).await?;
    let disks = context.request.image_id.map_or(DiskSource::Volume, |image_id| DiskSource::Image { image_id });
    let flavor = context.new_flavor.clone().unwrap_or_default();
    let mut spec = guest_spec(world, context, &target, flavor, disks, volumes).await?;
    let (config, mut secrets) = first_boot::read(context, &world.env)?;
    if secrets.user_data.is_none() {
        secrets.user_data = world.cell(&target.cell)?.instance(context.server).await?.user_data.map(Secret::new);
    }
    (spec.config_drive, spec.sealed) = (config, Some(world.seal_for(&target, &secrets).await?));
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

/// Starts the guest at its target under the new epoch, unless the server stays off.
pub async fn start_evacuated(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    if context.starts() {
        world.ask(context, &target, fence, HostCommand::StartGuest).await?;
    }
    complete_attachments(world, context, fence).await
}

/// Writes the final state, host included. The migration is `done` until its source has been cleaned up.
pub async fn finish_evacuation(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let (vm_state, power) =
        if context.starts() { (VmState::Active, PowerState::Running) } else { (VmState::Stopped, PowerState::Shutdown) };
    let change = InstanceChange { launched_at: Some(Some(world.env.now())), ..arrival(&target, vm_state, power) };
    let mut txn = CellTxn::new().instance_change(context.server, change).migration_status(context.saga, MigrationStatus::Done);
    txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    txn = history::event_done(txn, context, REBUILD_EVENT, Some(&target));
    txn = history::succeeded(txn, context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishRecord, InstanceAction::Rebuild, Phase::End), &target).await
}
