//! The guest: it stops at its source, and is built and started at its target.

use super::ports::activate_ports;
use super::volumes::{attachments, complete_attachments, connect_volumes, drop_unnamed_attachments};
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::guest::{DiskSource, GuestSpec, GuestVif, GuestVolume};
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::server::{PowerState, TaskState};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{Place, Resize, ServerFacts};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// Stops the source guest within its grace time.
pub async fn stop_source_guest(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let txn = CellTxn::new().migration_status(context.move_id(), MigrationStatus::Migrating);
    let txn = history::event_started(txn, context, source_event(context), Some(&source));
    history::apply_and_notify(world, context, fence, txn, (StepName::StopSourceGuest, InstanceAction::Resize, Phase::Start), &source)
        .await?;
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &source, fence, stop).await.map(drop).map_err(|error| match error {
        StepError::Refused(why) => StepError::Refused(reason!("Failed to power off instance: {why}")),
        other => other,
    })
}

/// Undo: starts the guest if it ran.
pub async fn start_source_guest(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if context.ran_before() && !world.settings.recover_source_guest {
        (context.service_lost, context.guest_lost) = (true, true);
        return Ok(());
    }
    start_at_its_ports(world, context, fence, &source).await
}

/// In an undo: starts the guest on that host if it ran. Its ports are activated there first, because a start waits for them, and the undo
/// that activates them may be owed.
pub async fn start_at_its_ports(world: &World, context: &ServerFacts, fence: Fence, place: &Place) -> Result<(), StepError> {
    if context.ran_before() {
        activate_ports(world, context, fence, &place.host).await?;
        world.ask(context, place, fence, HostCommand::StartGuest).await?;
    }
    Ok(())
}

/// Returns the name of the source's event.
fn source_event(context: &ServerFacts) -> &'static str {
    if context.crosses_cells() { "compute_prep_snapshot_based_resize_at_source" } else { "compute_resize_instance" }
}

/// Returns the name of the target's last event.
pub fn finish_event(context: &ServerFacts) -> &'static str {
    if context.crosses_cells() { "compute_finish_snapshot_based_resize_at_dest" } else { "compute_finish_resize" }
}

/// Has the source host destroy the guest, keep its disks and unplug its VIFs. An empty attachment holds each volume (INVARIANTS D5).
pub async fn release_source_guest(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    world.ask(context, &source, fence, HostCommand::ReleaseGuest).await?;
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.placeholder, volume.volume_id, None, mount).await?;
        world.volumes.delete_attachment(fence, volume.source_attachment).await?;
    }
    let change = InstanceChange { power_state: Some(PowerState::Shutdown), ..InstanceChange::task(Some(TaskState::ResizeMigrated)) };
    let mut txn =
        CellTxn::new().instance_change(context.server, change).migration_status(context.move_id(), MigrationStatus::PostMigrating);
    txn = attachments(world, context, &source.cell, txn, |volume| volume.placeholder).await?;
    txn = history::event_done(txn, context, source_event(context), Some(&source));
    history::apply_and_notify(world, context, fence, txn, (StepName::ReleaseSourceGuest, InstanceAction::Resize, Phase::End), &source).await
}

/// Undo: defines the guest again on its kept disks, connects its volumes and plugs its VIFs. The result is the same however far the act
/// came (NOVA-DIFFERENCES L16).
pub async fn define_source_guest_again(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let volumes = connect_volumes(world, context, fence, &source, |volume| volume.source_attachment).await?;
    define_on_kept_disks(world, context, fence, &source, volumes).await?;
    record_source_volumes(world, context, fence, &source).await?;
    for volume in &context.volumes {
        match world.volumes.delete_attachment(fence, volume.placeholder).await.map_err(StepError::from) {
            // The guest does not need it: the undo of `reserve_volumes_for_target` asks again, and owes it if it must.
            Err(StepError::Refused(_)) => {}
            reply => reply?,
        }
    }
    Ok(())
}

/// Payment of [`define_source_guest_again`]: a guest that runs at the source is left alone, and so is one whose user has mended the server. If
/// the source no longer owns the guest, only this move's attachments go.
pub async fn pay_source_guest(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if debt::lost_ownership(world, context, &source).await? {
        return drop_unnamed_attachments(world, context, fence).await;
    }
    let guest = debt::guest_at(world, context, &source).await?;
    // The state alone is no proof, because an administrator may reset it.
    if guest.is_some() && debt::was_mended(world, context).await? {
        return drop_unnamed_attachments(world, context, fence).await;
    }
    let volumes = connect_volumes(world, context, fence, &source, |volume| volume.source_attachment).await?;
    if guest.is_none_or(|guest| guest.power_state != PowerState::Running) {
        define_on_kept_disks(world, context, fence, &source, volumes).await?;
    }
    record_source_volumes(world, context, fence, &source).await?;
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.placeholder).await?;
    }
    Ok(())
}

/// Has the source define the guest on its kept disks, with these connections.
async fn define_on_kept_disks(
    world: &World,
    context: &Resize,
    fence: Fence,
    source: &Place,
    volumes: Vec<GuestVolume>,
) -> Result<(), StepError> {
    let flavor = context.old_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, source, flavor, DiskSource::Kept, volumes).await?;
    world.ask(context, source, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

/// Completes the source's attachments, and names them in the server's record.
async fn record_source_volumes(world: &World, context: &Resize, fence: Fence, source: &Place) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.source_attachment).await?;
    }
    let txn = attachments(world, context, &source.cell, CellTxn::new(), |volume| volume.source_attachment).await?;
    Ok(world.cell(&source.cell)?.apply(fence, txn).await?)
}

/// Has the target build the guest from the source's disks and connect its volumes. The guest is not started.
pub async fn prepare_at_target(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let here = Place { cell: context.source()?.cell.clone(), ..target.clone() };
    let mut txn = CellTxn::new();
    if !context.crosses_cells() {
        // Users see a move to another cell in its source's record, which stays as it is until the end.
        txn = txn.instance_change(context.server, InstanceChange::task(Some(TaskState::ResizeFinish)));
    }
    txn = history::event_started(txn, context, finish_event(context), Some(&target));
    let event = (StepName::PrepareAtTarget, InstanceAction::ResizeFinish, Phase::Start);
    history::apply_and_notify(world, context, fence, txn, event, &here).await?;
    let volumes = connect_volumes(world, context, fence, &target, |volume| volume.target_attachment).await?;
    let flavor = context.new_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, &target, flavor, disks_for_target(context), volumes).await?;
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

fn disks_for_target(context: &Resize) -> DiskSource {
    match &context.manifest {
        None => DiskSource::Volume,
        Some(manifest) if context.crosses_cells() => DiskSource::Snapshot { image_id: context.snapshot, manifest: manifest.clone() },
        Some(manifest) => {
            let source = context.source().ok().map(|source| source.host.clone());
            DiskSource::Transfer { migration: context.move_id(), source, manifest: manifest.clone() }
        }
    }
}

/// Undo: removes the target's guest and disks. The fence refuses a late start.
pub async fn remove_from_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.ask(context, &target, fence, HostCommand::RemoveGuest).await.map(drop)
}

/// Starts the guest at its target if it ran before, under the new epoch; its VIFs are plugged.
pub async fn start_at_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    if context.ran_before() {
        world.ask(context, &target, fence, HostCommand::StartGuest).await?;
    }
    complete_attachments(world, context, fence).await
}

/// Undo, past the pivot: the server goes back only if the target says that the guest does not run, or takes no requests and was forced down by
/// an operator. If the guest runs, the saga goes forward, and the rest of the act is done here.
pub async fn fence_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    match world.ask(context, &target, fence, HostCommand::Fence).await {
        Ok(HostReply::Stopped { was_running: true }) if stands(Guard::RunningTarget) => {
            complete_attachments(world, context, fence).await?;
            Err(StepError::GoForward(reason!("the guest runs on {}", target.host)))
        }
        Ok(_) => Ok(()),
        Err(StepError::Unknown(why)) => forced_down_or(world, &target, why).await,
        Err(other) => Err(other),
    }
}

/// Succeeds if an operator has vouched that the silent host is off. Otherwise nobody knows what runs there, and `why`.
pub async fn forced_down_or(world: &World, place: &Place, why: Reason) -> Result<(), StepError> {
    match world.is_forced_off(place).await? {
        true => Ok(()),
        false => Err(StepError::Unknown(why)),
    }
}

/// Describes the guest that a host must build.
pub async fn guest_spec(
    world: &World,
    context: &ServerFacts,
    place: &Place,
    flavor: Flavor,
    disks: DiskSource,
    volumes: Vec<GuestVolume>,
) -> Result<GuestSpec, StepError> {
    let instance_name = match world.cell(&place.cell)?.instance(context.server).await {
        Ok(instance) => instance.instance_name(),
        // A new server has no record yet.
        Err(DbError::NotFound(_)) => format!("instance-{}", context.server.simple()),
        Err(other) => return Err(other.into()),
    };
    let vifs = context.ports.iter().map(|port| GuestVif { port_id: port.port_id, mac: port.mac.clone() }).collect();
    Ok(GuestSpec {
        server: context.server,
        instance_name,
        flavor,
        disks,
        volumes,
        vifs,
        config_drive: serde_json::Value::Null,
        sealed: None,
    })
}
