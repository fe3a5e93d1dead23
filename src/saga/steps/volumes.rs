//! The attachments of a server's volumes.

use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::block_device::BlockDeviceChange;
use crate::domain::fence::Fence;
use crate::domain::guest::GuestVolume;
use crate::saga::context::{Place, ServerFacts, VolumeLink};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::world::World;

/// Creates an empty attachment per volume, which holds it for the target.
pub async fn reserve_volumes_for_target(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.target_attachment, volume.volume_id, None, mount).await?;
    }
    Ok(())
}

/// Undo: removes the target's attachments and the placeholders. A placeholder that the record names stays until the source's guest is
/// defined again.
pub async fn release_target_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.target_attachment).await?;
    }
    drop_unnamed(world, context, fence, context.volumes.iter().map(|volume| volume.placeholder)).await
}

/// Deletes this move's placeholder and source attachments, unless the server's record names them.
pub async fn drop_unnamed_attachments(world: &World, context: &ServerFacts, fence: Fence) -> Result<(), StepError> {
    let own = context.volumes.iter().flat_map(|volume| [volume.placeholder, volume.source_attachment]);
    drop_unnamed(world, context, fence, own).await
}

/// Deletes the attachments that the server's record does not name.
pub async fn drop_unnamed(
    world: &World,
    context: &ServerFacts,
    fence: Fence,
    attachments: impl Iterator<Item = Uuid>,
) -> Result<(), StepError> {
    let Some(cell) = debt::cell_of(world, context).await? else { return Ok(()) };
    let devices = world.cell(&cell)?.block_devices(context.server).await?;
    let is_named = |id: Uuid| devices.iter().any(|device| device.attachment_id == Some(id));
    for id in attachments.filter(|id| !is_named(*id)) {
        world.volumes.delete_attachment(fence, id).await?;
    }
    Ok(())
}

/// Gives each volume's attachment the connector of the host, and creates a missing attachment. Returns the connections for the host.
pub async fn connect_volumes(
    world: &World,
    context: &ServerFacts,
    fence: Fence,
    place: &Place,
    attachment: impl Fn(&VolumeLink) -> Uuid + Send,
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

/// Adds the attachment ids and connection infos of the record's volumes in a cell to `txn`.
pub async fn attachments(
    world: &World,
    context: &ServerFacts,
    cell: &str,
    mut txn: CellTxn,
    attachment: impl Fn(&VolumeLink) -> Uuid + Send,
) -> Result<CellTxn, StepError> {
    if context.volumes.is_empty() {
        return Ok(txn);
    }
    let attachments = world.volumes.attachments_of(context.server).await?;
    for device in world.cell(cell)?.block_devices(context.server).await? {
        let Some(volume) = context.volumes.iter().find(|volume| Some(volume.volume_id) == device.volume_id) else { continue };
        let id = attachment(volume);
        let info = attachments.iter().find(|attachment| attachment.id == id).map(|attachment| attachment.connection_info.clone());
        let change = BlockDeviceChange { attachment_id: Some(Some(id)), connection_info: Some(info), ..BlockDeviceChange::default() };
        txn = txn.block_device_change(device.uuid, change);
    }
    Ok(txn)
}

pub async fn complete_attachments(world: &World, context: &ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.target_attachment).await?;
    }
    Ok(())
}
