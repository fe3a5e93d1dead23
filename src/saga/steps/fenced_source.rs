//! The steps of an evacuation at its source: a host that is off, or was forced down. It must not run the guest when the target may, and is cleaned up
//! when it answers again.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::records::ignore_missing;
use super::volumes::{attachments, drop_unnamed_attachments};
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::domain::server::TaskState;
use crate::domain::standing::Standing;
use crate::env::guard::{Guard, stands};
use crate::saga::context::{Evacuate, Place, ServerFacts, VolumeLink};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::steps::allocation::{drop_claim, drop_source_allocation};
use crate::saga::steps::guest::start_at_its_ports;
use crate::saga::world::World;

/// Has the guest off at a source that answers, because it was only forced down. A host that is off by a word runs nothing, and asks before it
/// runs a guest again. Any other host that does not answer may run the guest, so nothing is taken from it.
pub async fn fence_source(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    match world.ask(context, &source, fence, HostCommand::StopGuest { grace_ms: 0 }).await {
        Ok(_) => context.source_stopped = Some(true),
        Err(StepError::Unknown(why)) => {
            go_on_without(world, &source, why).await?;
            context.source_stopped = Some(false);
        }
        Err(other) => return Err(other),
    }
    Ok(())
}

/// Lets an evacuation go on without an answer of its source if the source is off by a word.
async fn go_on_without(world: &World, source: &Place, why: Reason) -> Result<(), StepError> {
    match world.standing(source).await? {
        Standing::Up if stands(Guard::LivingSource) => {
            Err(StepError::Unknown(reason!("{why}; it counts as down but still lives, and may run the guest")))
        }
        Standing::Silent { .. } if stands(Guard::SilentSource) => {
            Err(StepError::Unknown(reason!("{why}; it is silent, may run the guest, and is not forced down")))
        }
        _ => Ok(()),
    }
}

/// Undo: starts the guest that was stopped. A host that was off starts its guests by itself.
pub async fn start_source_again(world: &World, context: &mut Evacuate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if context.source_stopped == Some(false) {
        return Ok(());
    }
    start_at_its_ports(world, context, fence, &source).await
}

/// Takes the volumes from the source. An empty attachment holds each of them for the way back.
pub async fn detach_source_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.placeholder, volume.volume_id, None, mount).await?;
        world.volumes.delete_attachment(fence, volume.source_attachment).await?;
    }
    let task = InstanceChange::task(Some(TaskState::RebuildBlockDeviceMapping));
    let txn = CellTxn::new().instance_change(context.server, task);
    let txn = attachments(world, context, &source.cell, txn, |volume| volume.placeholder).await?;
    Ok(world.cell(&source.cell)?.apply(fence, txn).await?)
}

/// Undo: gives the volumes back to the source. A volume that the server has by another attachment since keeps that one.
pub async fn attach_source_volumes_again(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let devices = world.cell(&source.cell)?.block_devices(context.server).await?;
    let volume_attachments = world.volumes.attachments_of(context.server).await?;
    let is_connected = |id: Uuid| volume_attachments.iter().any(|attachment| attachment.id == id && attachment.host.is_some());
    let named = |volume: &VolumeLink| devices.iter().find(|device| device.volume_id == Some(volume.volume_id))?.attachment_id;
    let is_ours = |volume: &VolumeLink| match named(volume) {
        Some(id) if id == volume.placeholder => !is_connected(id),
        other => other == Some(volume.source_attachment),
    };
    for volume in context.volumes.iter().filter(|volume| is_ours(volume)) {
        let (id, mount) = (volume.source_attachment, Some(volume.device_name.as_str()));
        world.volumes.create_attachment(fence, id, volume.volume_id, Some(&source.host), mount).await?;
        world.volumes.update_attachment(fence, id, &source.host, mount).await?;
        world.volumes.complete_attachment(fence, id).await?;
    }
    let kept = |volume: &VolumeLink| named(volume).filter(|_| !is_ours(volume)).unwrap_or(volume.source_attachment);
    let txn = attachments(world, context, &source.cell, CellTxn::new(), kept).await?;
    world.cell(&source.cell)?.apply(fence, txn).await?;
    drop_unnamed_attachments(world, context, fence).await
}

/// Payment of [`attach_source_volumes_again`]: a source that no longer owns the guest gets no volumes, and only this move's attachments go.
pub async fn pay_source_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    match debt::lost_ownership(world, context, &source).await? {
        true => drop_unnamed_attachments(world, context, fence).await,
        false => attach_source_volumes_again(world, context, fence).await,
    }
}

/// Removes what the source still has of the server: its guest, disks and room, and what the migration holds there.
pub async fn clean_evacuated_source(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    if !debt::in_use_again(world, context, &source).await? {
        world.ask(context, &source, fence, HostCommand::RemoveGuest).await?;
        drop_claim(world, context, fence, &source).await?;
    }
    drop_source_allocation(world, context, fence).await?;
    let mut cells = cells_of_history(world, context).await?;
    cells.insert(source.cell);
    for cell in cells {
        let completed = CellTxn::new().migration_status(context.move_id(), MigrationStatus::Completed);
        ignore_missing(world.cell(&cell)?.apply(fence, completed).await)?;
    }
    Ok(())
}

/// Returns the cells to which the server has gone since, with its history: the cell that its mapping names, also after its end, and the
/// cell that it has left in a move that waits for confirm or revert.
async fn cells_of_history(world: &World, context: &ServerFacts) -> Result<BTreeSet<String>, StepError> {
    let present = match world.api.instance_mapping(context.server).await {
        Ok(mapping) => mapping.cell_uuid,
        Err(DbError::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(present) = present else { return Ok(BTreeSet::new()) };
    let present = world.cell_name(present)?.to_owned();
    let waiting = world.cell(&present)?.latest_migration(context.server, &[MigrationStatus::Finished]).await?;
    let mut cells = BTreeSet::from([present]);
    if let Some(move_that_waits) = waiting {
        cells.insert(world.cell_of_host(&move_that_waits.source_compute).await?);
    }
    Ok(cells)
}
