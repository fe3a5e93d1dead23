//! How a guest leaves its source host and arrives at its target: the steps that both moves share, with their undos.

use super::context::{Context, Place, VolumeLink};
use super::error::StepError;
use super::history;
use super::step_name::StepName;
use super::world::World;
use crate::db::api::ownership;
use crate::db::cell::CellTxn;
use crate::db::cell::block_devices::BlockDeviceChange;
use crate::db::cell::instance_change::InstanceChange;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::guest::{DiskSource, GuestSpec, GuestVif, GuestVolume};
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, TaskState};
use crate::env::guard::{Guard, stands};
use crate::services::ServiceError;

/// The host takes room for the flavor that is wanted.
pub async fn claim(world: &World, context: &Context, fence: Fence, place: &Place) -> Result<(), StepError> {
    let claim = HostCommand::Claim { holder: context.server, resources: context.new_resources() };
    world.ask(context, place, fence, claim).await.map(drop)
}

/// The host gives the server's room back.
pub async fn drop_claim(world: &World, context: &Context, fence: Fence, place: &Place) -> Result<(), StepError> {
    world.ask(context, place, fence, HostCommand::DropClaim { holder: context.server }).await.map(drop)
}

/// The source guest is stopped within its grace time.
pub async fn stop_source_guest(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let txn = CellTxn::new().migration_status(context.move_id(), MigrationStatus::Migrating);
    let txn = history::event_started(txn, context, source_event(context), Some(&source));
    history::apply_and_notify(world, context, fence, txn, (StepName::StopSourceGuest, InstanceAction::Resize, Phase::Start), &source)
        .await?;
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &source, fence, stop).await.map(drop).map_err(|error| match error {
        StepError::Refused(why) => StepError::Refused(format!("Failed to power off instance: {why}")),
        other => other,
    })
}

/// Undo: the guest runs again if it ran.
pub async fn start_source_guest(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if context.ran_before() && !world.settings.recover_source_guest {
        (context.service_lost, context.guest_lost) = (true, true);
        return Ok(());
    }
    if context.ran_before() {
        world.ask(context, &source, fence, HostCommand::StartGuest).await?;
    }
    Ok(())
}

/// The name of the source's event.
pub fn source_event(context: &Context) -> &'static str {
    if context.crosses_cells() { "compute_prep_snapshot_based_resize_at_source" } else { "compute_resize_instance" }
}

/// The name of the target's last event.
pub fn finish_event(context: &Context) -> &'static str {
    if context.crosses_cells() { "compute_finish_snapshot_based_resize_at_dest" } else { "compute_finish_resize" }
}

/// The source host lets go: the guest is destroyed but its disks are kept, VIFs are unplugged, and each volume is held by
/// an empty attachment (INVARIANTS D5).
pub async fn release_source_guest(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
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

/// Undo: the guest is defined again on its kept disks, with its volumes connected and its VIFs plugged. Whatever the act
/// did or did not do before, the result is the same (NOVA-DIFFERENCES L16).
pub async fn define_source_guest_again(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if super::debt::lost_ownership(world, context, &source).await? {
        return drop_unnamed_attachments(world, context, fence).await;
    }
    let guest = super::debt::guest_at(world, context, &source).await?;
    // Its state alone does not say that it was mended: an administrator may reset that.
    if guest.is_some() && super::debt::was_mended(world, context).await? {
        return drop_unnamed_attachments(world, context, fence).await;
    }
    let volumes = connect_volumes(world, context, fence, &source, |volume| volume.source_attachment).await?;
    if guest.is_none_or(|guest| guest.power_state != PowerState::Running) {
        let flavor = context.old_flavor.clone().unwrap_or_default();
        let spec = guest_spec(world, context, &source, flavor, DiskSource::Kept, volumes).await?;
        world.ask(context, &source, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await?;
    }
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.source_attachment).await?;
    }
    let txn = attachments(world, context, &source.cell, CellTxn::new(), |volume| volume.source_attachment).await?;
    world.cell(&source.cell)?.apply(fence, txn).await?;
    for volume in &context.volumes {
        match world.volumes.delete_attachment(fence, volume.placeholder).await.map_err(StepError::from) {
            // The guest needs nothing of it: the undo of the volumes' reservation asks again, and owes it if need be.
            Err(StepError::Refused(_)) if !context.settling => {}
            asked => asked?,
        }
    }
    Ok(())
}

/// What mended the server, or moved it since, has connected each volume by the attachment that the record names: of those that were to
/// hold or to connect it here, the rest goes.
async fn drop_unnamed_attachments(world: &World, context: &Context, fence: Fence) -> Result<(), StepError> {
    let own = context.volumes.iter().flat_map(|volume| [volume.placeholder, volume.source_attachment]);
    drop_unnamed(world, context, fence, own).await
}

/// Removes those of the attachments that the server's record does not name.
pub async fn drop_unnamed(
    world: &World,
    context: &Context,
    fence: Fence,
    attachments: impl Iterator<Item = uuid::Uuid>,
) -> Result<(), StepError> {
    let Some(cell) = super::debt::cell_of(world, context).await? else { return Ok(()) };
    let devices = world.cell(&cell)?.block_devices(context.server).await?;
    let is_named = |id: uuid::Uuid| devices.iter().any(|device| device.attachment_id == Some(id));
    for id in attachments.filter(|id| !is_named(*id)) {
        world.volumes.delete_attachment(fence, id).await?;
    }
    Ok(())
}

/// The target's bindings become the active ones.
pub async fn activate_target_ports(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let host = context.target()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

/// Undo: the source's bindings are the active ones, whatever failed before (NOVA-DIFFERENCES L15).
pub async fn activate_source_ports(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let host = context.source()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

/// Makes the host's bindings the active ones, whether they exist or not. A port that its user has deleted has none, and keeps no
/// server from going where it goes: its interface stays without a network.
pub async fn activate_ports(world: &World, context: &Context, fence: Fence, host: &str) -> Result<(), StepError> {
    for port in &context.ports {
        if !is_gone(world.network.create_binding(fence, port.port_id, host).await)? {
            is_gone(world.network.activate_binding(fence, port.port_id, host).await)?;
        }
    }
    Ok(())
}

/// Whether what was to be done was done to a port that is not there any more.
pub fn is_gone(done: Result<(), ServiceError>) -> Result<bool, ServiceError> {
    match done {
        Ok(()) => Ok(false),
        Err(ServiceError::NotFound(_)) => Ok(true),
        Err(other) => Err(other),
    }
}

/// The target builds the guest from what the source left, connects its volumes, and does not start it.
pub async fn prepare_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let here = Place { cell: context.source()?.cell.clone(), ..target.clone() };
    let txn = history::event_started(CellTxn::new(), context, finish_event(context), Some(&target));
    let told = (StepName::PrepareAtTarget, InstanceAction::ResizeFinish, Phase::Start);
    history::apply_and_notify(world, context, fence, txn, told, &here).await?;
    let volumes = connect_volumes(world, context, fence, &target, |volume| volume.target_attachment).await?;
    let flavor = context.new_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, &target, flavor, disks_for_target(context), volumes).await?;
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

fn disks_for_target(context: &Context) -> DiskSource {
    match &context.manifest {
        None => DiskSource::Volume,
        Some(manifest) if context.crosses_cells() => DiskSource::Snapshot { image_id: context.snapshot, manifest: manifest.clone() },
        Some(manifest) => DiskSource::Transfer { migration: context.move_id(), manifest: manifest.clone() },
    }
}

/// Undo: the target's guest and disks are removed; a late order to start it is refused by the fence.
pub async fn remove_from_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.ask(context, &target, fence, HostCommand::RemoveGuest).await.map(drop)
}

/// The pivot: one commit names the target as the owner of the server's guest and raises the epoch (INVARIANTS S4).
pub async fn take_ownership(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let owner = context.target()?.clone();
    own(world, context, fence, Some(owner)).await
}

/// Undo: one commit names the source again. It is reached only when the target has said "not running, fenced", when an
/// operator has forced it down, or when the first commit did not happen.
pub async fn hand_back_ownership(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let owner = context.source()?.clone();
    own(world, context, fence, Some(owner)).await
}

/// Names an owner under the saga's lease.
pub async fn own(world: &World, context: &Context, fence: Fence, owner: Option<Place>) -> Result<(), StepError> {
    let commit = move |conn: &mut crate::db::Conn| {
        ownership::hand_over(conn, fence, owner.as_ref().map(|owner| (owner.cell.as_str(), owner.host.as_str())))
    };
    world.operations.under_lease(context.saga, context.lease_epoch, commit).await.map_err(|error| match error {
        crate::db::DbError::Conflict(why) => StepError::Overtaken(why),
        other => other.into(),
    })
}

/// The guest starts at its target if it ran before, under the new epoch, and its VIFs are plugged.
pub async fn start_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    if context.ran_before() {
        world.ask(context, &target, fence, HostCommand::StartGuest).await?;
    }
    complete_attachments(world, context, fence).await
}

async fn complete_attachments(world: &World, context: &Context, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.target_attachment).await?;
    }
    Ok(())
}

/// Undo, past the pivot: only the target's own word that the guest does not run, or an operator's that the host is off,
/// lets the server go back. If the guest runs after all, the saga goes forward; what the act may not have come to is done here.
pub async fn fence_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    match world.ask(context, &target, fence, HostCommand::Fence).await {
        Ok(HostReply::Stopped { was_running: true }) if stands(Guard::RunningTarget) => {
            complete_attachments(world, context, fence).await?;
            Err(StepError::GoForward(format!("the guest runs on {}", target.host)))
        }
        Ok(_) => Ok(()),
        Err(StepError::Unknown(why)) => {
            let service = world.cell(&target.cell)?.service_on(&target.host, "nova-compute").await?;
            if service.forced_down { Ok(()) } else { Err(StepError::Unknown(why)) }
        }
        Err(other) => Err(other),
    }
}

/// Gives each volume's attachment its connector for the place (made anew when it is gone); what the host needs to connect.
pub async fn connect_volumes(
    world: &World,
    context: &Context,
    fence: Fence,
    place: &Place,
    attachment: impl Fn(&VolumeLink) -> uuid::Uuid + Send,
) -> Result<Vec<GuestVolume>, StepError> {
    let mut connected = Vec::new();
    for volume in &context.volumes {
        let (id, mount) = (attachment(volume), Some(volume.device_name.as_str()));
        world.volumes.create_attachment(fence, id, volume.volume_id, Some(&place.host), mount).await?;
        let attachment = world.volumes.update_attachment(fence, id, &place.host, mount).await?;
        connected.push(GuestVolume {
            volume_id: volume.volume_id,
            attachment_id: id,
            device_name: volume.device_name.clone(),
            boot_index: volume.boot_index,
            connection_info: attachment.connection_info,
        });
    }
    Ok(connected)
}

/// The guest as a host shall build it.
pub async fn guest_spec(
    world: &World,
    context: &Context,
    place: &Place,
    flavor: Flavor,
    disks: DiskSource,
    volumes: Vec<GuestVolume>,
) -> Result<GuestSpec, StepError> {
    let instance_name = match world.cell(&place.cell)?.instance(context.server).await {
        Ok(instance) => instance.instance_name(),
        // A server that is being made has no record yet.
        Err(crate::db::DbError::NotFound(_)) => format!("instance-{}", context.server.simple()),
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

/// Adds to `txn` the attachment ids (and the connection info they stand for) of the record's volumes in a cell.
pub async fn attachments(
    world: &World,
    context: &Context,
    cell: &str,
    mut txn: CellTxn,
    attachment: impl Fn(&VolumeLink) -> uuid::Uuid + Send,
) -> Result<CellTxn, StepError> {
    if context.volumes.is_empty() {
        return Ok(txn);
    }
    let known = world.volumes.attachments_of(context.server).await?;
    for device in world.cell(cell)?.block_devices(context.server).await? {
        let Some(volume) = context.volumes.iter().find(|volume| Some(volume.volume_id) == device.volume_id) else { continue };
        let id = attachment(volume);
        let info = known.iter().find(|attachment| attachment.id == id).map(|attachment| attachment.connection_info.clone());
        let change = BlockDeviceChange { attachment_id: Some(Some(id)), connection_info: Some(info), ..BlockDeviceChange::default() };
        txn = txn.block_device_change(device.uuid, change);
    }
    Ok(txn)
}
