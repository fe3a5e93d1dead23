//! Revert: the server goes back to the move's source, onto the disks that were kept there.
//!
//! The target's guest stops first. Its host's answer ("not running", under a fence that refuses every earlier order) allows the commit that
//! names the source again. Until that commit an undo starts the target's guest; after it the saga goes forward, and clean-ups at a target
//! that does not answer are owed. Users see REVERT_RESIZE until all is done (NOVA-DIFFERENCES L9).

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_bundle::UserFields;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{Event, InstanceAction, Phase};
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Place, Revert, ServerFacts};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{drop_claim, return_source_allocation};
use crate::saga::steps::guest::{guest_spec, start_at_its_ports};
use crate::saga::steps::ownership::own;
use crate::saga::steps::port_shares::read_shares_of_move;
use crate::saga::steps::ports::activate_ports;
use crate::saga::steps::records::{delete_hidden_records, ignore_missing, pay_hidden_records};
use crate::saga::steps::volumes::{attachments, connect_volumes};
use crate::saga::world::World;

/// The operation.
pub const OPERATION: Operation = Operation::new("revert", &[("revert", TABLE)], |_| TABLE).moving();

/// The saga.
pub const TABLE: Table = Table::of(STEPS);

const STEPS: &[Step] = &[
    ACCEPT,
    Step::reversible(StepName::BeginRevert, work!(begin_revert), Undo::Nothing("it only tells")),
    // Keeps the users' changes since the move (NOVA-DIFFERENCES L23), and holds volumes attached since for the source.
    Step::reversible(
        StepName::MirrorToSource,
        work!(mirror_to_source),
        Undo::Nothing("the hidden record is mirrored anew by the next revert"),
    ),
    Step::reversible(StepName::StopTargetGuest, work!(stop_target_guest), Undo::By(work!(start_target_guest)))
        .moot_when(Moot::OutOfHand(At::Target))
        .within(Deadline::Within(180))
        .serving(),
    // Before the commit: whether the source can take the guest again must be known while the way back is open.
    Step::reversible(StepName::PrepareAtSource, work!(prepare_at_source), Undo::By(work!(release_at_source)))
        .moot_when(Moot::InUseAgain(At::Source)),
    Step::reversible(StepName::ActivateSourcePorts, work!(activate_source_ports), Undo::By(work!(activate_target_ports)))
        .moot_when(Moot::LostOwnership(At::Target))
        .serving(),
    Step::pivot(StepName::TakeOwnershipBack, work!(take_ownership_back), Undo::By(work!(leave_ownership))),
    // If the source cannot start the guest, the server is in ERROR there, and a hard reboot recovers it (INVARIANTS S7).
    Step::cleanup(StepName::StartAtSource, work!(start_at_source))
        .paid_by(work!(pay_start_at_source))
        .moot_when(Moot::LostOwnership(At::Source))
        .within(Deadline::Within(300))
        .serving(),
    Step::forward(StepName::ReturnAllocation, work!(return_source_allocation)),
    Step::cleanup(StepName::RemoveTargetGuest, work!(remove_target_guest)).moot_when(Moot::InUseAgain(At::Target)),
    Step::cleanup(StepName::ReleaseTargetPorts, work!(release_target_ports))
        .moot_when(Moot::InUseAgain(At::Target))
        .idle(idle::without_ports),
    Step::cleanup(StepName::ReleaseTargetVolumes, work!(release_target_volumes)).idle(idle::without_volumes),
    Step::forward(StepName::PublishSource, work!(publish_source)),
    Step::cleanup(StepName::DeleteTargetRecords, work!(delete_target_records)).paid_by(work!(pay_target_records)),
];

async fn begin_revert(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    read_shares_of_move(world, context, fence).await?;
    let (source, here) = (context.source()?.clone(), context.target()?.clone());
    // All events begin in the cell that records the action: the next step copies them to the source's cell.
    let events = host_events(context, &source, &here);
    let txn = events.into_iter().fold(CellTxn::new(), |txn, (event, place)| history::event_started(txn, context, event, Some(place)));
    history::apply_and_notify(world, context, fence, txn, (StepName::BeginRevert, InstanceAction::ResizeRevert, Phase::Start), &here).await
}

async fn mirror_to_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        // The move has made placeholders; only a volume attached since has none.
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.placeholder, volume.volume_id, None, mount).await?;
    }
    if !context.crosses_cells() {
        return Ok(());
    }
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let at_target = world.cell(&target.cell)?.export_bundle(context.server).await?;
    let mut txn = CellTxn::new()
        .instance_change(context.server, InstanceChange::task(Some(TaskState::ResizeReverting)))
        .copy_user_fields(context.server, UserFields::from(&at_target))
        .replace_block_devices(context.server, at_target.block_devices)
        .merge_actions(context.server, at_target.actions);
    if let Some(network) = at_target.info_cache {
        txn = txn.info_cache(context.server, network);
    }
    for migration in at_target.migrations {
        txn = txn.mirror_migration(migration);
    }
    Ok(world.cell(&source.cell)?.apply(fence, txn).await?)
}

async fn stop_target_guest(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &target, fence, stop).await.map(drop)
}

async fn start_target_guest(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    start_at_its_ports(world, context, fence, &target).await
}

/// Defines the guest again on the kept disks with the source's connections (NOVA-DIFFERENCES L17), without a start.
async fn prepare_at_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let volumes = connect_volumes(world, context, fence, &source, |volume| volume.source_attachment).await?;
    let disks = if context.has_local_disks() { DiskSource::Kept } else { DiskSource::Volume };
    let flavor = context.old_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, &source, flavor, disks, volumes).await?;
    world.ask(context, &source, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

/// Undo: leaves only the disks and empty attachments at the source, as before.
async fn release_at_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    world.ask(context, &source, fence, HostCommand::ReleaseGuest).await?;
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.source_attachment).await?;
    }
    Ok(())
}

async fn activate_source_ports(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let host = context.source()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

async fn activate_target_ports(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let host = context.target()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

/// The pivot: names the source as the owner again. The target's guest was stopped under a fence of this saga.
async fn take_ownership_back(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    own(world, context, fence, Some(source)).await
}

/// Undo: leaves the target as the owner. Reached only if the act's commit did not happen.
async fn leave_ownership(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    own(world, context, fence, Some(target)).await
}

async fn start_at_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if context.running_before_move {
        world.ask(context, &source, fence, HostCommand::StartGuest).await?;
    }
    complete_source_volumes(world, context, fence).await
}

/// Payment of [`start_at_source`]: starts the guest only while the server is in ERROR, because a user who mended it may have stopped it since.
async fn pay_start_at_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    match context.running_before_move && debt::was_mended(world, context).await? {
        true => complete_source_volumes(world, context, fence).await,
        false => start_at_source(world, context, fence).await,
    }
}

async fn complete_source_volumes(world: &World, context: &Revert, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.source_attachment).await?;
    }
    Ok(())
}

async fn remove_target_guest(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.ask(context, &target, fence, HostCommand::RemoveGuest).await?;
    drop_claim(world, context, fence, &target).await?;
    history::emit(world, context, StepName::RemoveTargetGuest, Event::InstanceExists, &target).await;
    Ok(())
}

async fn release_target_ports(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &target.host).await?;
    }
    Ok(())
}

async fn release_target_volumes(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.target_attachment).await?;
        world.volumes.delete_attachment(fence, volume.placeholder).await?;
    }
    Ok(())
}

/// Shows the source to users: unhides its record, changes the mapping and the request spec, then hides the target (INVARIANTS D1).
/// The task goes last, so that a user who sees no task finds the source everywhere.
async fn publish_source(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let crosses = context.crosses_cells();
    let mut txn = CellTxn::new()
        .instance_change(context.server, back_at_source(world, context, &source))
        .clear_move_fields(context.server)
        .migration_status(context.move_id(), MigrationStatus::Reverted);
    txn = attachments(world, context, &source.cell, txn, |volume| volume.source_attachment).await?;
    if crosses
        && let Ok(db) = world.cell(&target.cell)
        && let Ok(history) = db.history(context.server).await
    {
        txn = txn.merge_actions(context.server, history);
    }
    for (event, place) in host_events(context, &source, &target) {
        txn = history::event_done(txn, context, event, Some(place));
    }
    txn = if context.service_lost { history::failed(txn, world, context) } else { history::succeeded(txn, context) };
    world.cell(&source.cell)?.apply(fence, txn).await?;
    let spec = context.request_spec.clone().ok_or_else(|| StepError::Refused("the server has no request spec".into()))?;
    let spec = RequestSpec { flavor: context.old_flavor.clone().unwrap_or_default(), ..spec };
    world.api.publish_move(fence, context.server, world.cell_uuid(&source.cell)?, spec).await?;
    if crosses {
        ignore_missing(world.cell(&target.cell)?.apply(fence, CellTxn::new().hidden(context.server, true)).await)?;
        world.cell(&source.cell)?.apply(fence, CellTxn::new().instance_change(context.server, InstanceChange::task(None))).await?;
    }
    history::notify(world, context, StepName::PublishSource, InstanceAction::ResizeRevert, Phase::End, &source).await;
    Ok(())
}

fn back_at_source(world: &World, context: &Revert, source: &Place) -> InstanceChange {
    let (vm_state, power) = match (context.service_lost, context.running_before_move) {
        (true, _) => (VmState::Error, PowerState::Shutdown),
        (false, true) => (VmState::Active, PowerState::Running),
        (false, false) => (VmState::Stopped, PowerState::Shutdown),
    };
    // Across cells the task stays until the mapping names the source.
    let task = context.crosses_cells().then_some(TaskState::ResizeReverting);
    InstanceChange {
        hidden: Some(false),
        host: Some(Some(source.host.clone())),
        node: Some(Some(source.node.clone())),
        availability_zone: Some(source.availability_zone.clone()),
        flavor: context.old_flavor.clone(),
        power_state: Some(power),
        launched_at: Some(Some(world.env.now())),
        ..InstanceChange::states(vm_state, task)
    }
}

/// Returns the hosts' events of a revert.
fn host_events<'a>(context: &ServerFacts, source: &'a Place, target: &'a Place) -> Vec<(&'static str, &'a Place)> {
    if context.crosses_cells() {
        vec![("compute_revert_snapshot_based_resize_at_dest", target), ("compute_finish_revert_snapshot_based_resize_at_source", source)]
    } else {
        vec![("compute_finish_revert_resize", source)]
    }
}

async fn delete_target_records(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    if !context.crosses_cells() {
        return Ok(());
    }
    delete_hidden_records(world, context, fence, &context.target()?.cell).await
}

async fn pay_target_records(world: &World, context: &mut Revert, fence: Fence) -> Result<(), StepError> {
    if !context.crosses_cells() {
        return Ok(());
    }
    pay_hidden_records(world, context, fence, &context.target()?.cell).await
}
