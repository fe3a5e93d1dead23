//! Attach and detach of a volume, at rest, between a move and its confirm (NOVA-DIFFERENCES L24), or while the server is shelved. A server
//! without a host has the volume by a complete attachment without a connector; the unshelve connects it.

use crate::db::cell::CellTxn;
use crate::domain::block_device::BlockDevice;
use crate::domain::fence::Fence;
use crate::domain::guest::GuestVolume;
use crate::domain::host_protocol::HostCommand;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Attach, AttachRequest, Detach, Part};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::world::World;
use uuid::Uuid;

/// Attach.
pub const ATTACH: Operation = Operation::new("attach_volume", &[("attach_volume", ATTACH_TABLE)], |_| ATTACH_TABLE);

const ATTACH_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::ReserveVolume, work!(reserve_volume), Undo::By(work!(release_volume))),
    Step::reversible(StepName::ConnectVolume, work!(connect_volume), Undo::By(work!(take_volume_back))).moot_when(Moot::AttachedAnew),
    Step::forward(StepName::RecordVolume, work!(record_volume)),
]);

/// Detach.
pub const DETACH: Operation = Operation::new("detach_volume", &[("detach_volume", DETACH_TABLE)], |_| DETACH_TABLE);

const DETACH_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::DisconnectVolume, work!(disconnect_volume), Undo::Nothing("a volume that is half out can only go"))
        .tried(4)
        .no_way_back(),
    Step::forward(StepName::ForgetVolume, work!(forget_volume)),
]);

/// Commits changes where the server's record is, and notifies consumers, as its host would: there is nobody to tell if it has none.
async fn commit(
    world: &World,
    part: &dyn Part,
    fence: Fence,
    (txn, home): (CellTxn, Option<&String>),
    event: (StepName, InstanceAction, Phase),
) -> Result<(), StepError> {
    match (part.here(), home) {
        (Some(place), _) => history::apply_and_notify(world, part, fence, txn, event, place).await,
        (None, Some(home)) => Ok(world.cell(home)?.apply(fence, txn).await?),
        (None, None) => Err(StepError::Refused("the server is in no cell".into())),
    }
}

/// The record of the attachment as the first step saves it: without the volume's size and its connection.
pub fn device(world: &World, context: &Attach) -> BlockDevice {
    let AttachRequest { volume_id, device_name, tag, delete_on_termination } = context.request.clone();
    BlockDevice {
        device_name,
        attachment_id: Some(context.derived_id(&format!("attachment:{volume_id}"))),
        delete_on_termination,
        tag,
        ..BlockDevice::volume(context.derived_id(&format!("device:{volume_id}")), context.server, volume_id, world.env.now())
    }
}

async fn reserve_volume(world: &World, context: &mut Attach, fence: Fence) -> Result<(), StepError> {
    let (volume, device) = (context.request.volume_id, context.request.device_name.clone());
    let event = (StepName::ReserveVolume, InstanceAction::VolumeAttach, Phase::Start);
    commit(world, context, fence, (CellTxn::new(), context.home.as_ref()), event).await?;
    let id = context.derived_id(&format!("attachment:{volume}"));
    let host = context.here().map(|place| place.host.as_str());
    world.volumes.create_attachment(fence, id, volume, host, device.as_deref()).await?;
    Ok(())
}

async fn release_volume(world: &World, context: &mut Attach, fence: Fence) -> Result<(), StepError> {
    let volume = context.request.volume_id;
    Ok(world.volumes.delete_attachment(fence, context.derived_id(&format!("attachment:{volume}"))).await?)
}

async fn connect_volume(world: &World, context: &mut Attach, fence: Fence) -> Result<(), StepError> {
    let (volume_id, device) = (context.request.volume_id, context.request.device_name.clone());
    let id = context.derived_id(&format!("attachment:{volume_id}"));
    let Some(place) = context.here().cloned() else { return Ok(world.volumes.complete_attachment(fence, id).await?) };
    let attachment = world.volumes.update_attachment(fence, id, &place.host, device.as_deref()).await?;
    let volume = GuestVolume {
        volume_id,
        attachment_id: id,
        device_name: device.unwrap_or_default(),
        boot_index: None,
        connection_info: attachment.connection_info,
    };
    world.ask(context, &place, fence, HostCommand::AttachVolume { volume }).await?;
    Ok(world.volumes.complete_attachment(fence, id).await?)
}

/// Has the server's host, if it has one, take the volume out of the guest.
async fn disconnect(world: &World, part: &dyn Part, fence: Fence, volume_id: Uuid) -> Result<(), StepError> {
    let Some(place) = part.here().cloned() else { return Ok(()) };
    world.ask(part, &place, fence, HostCommand::DetachVolume { volume_id }).await.map(drop)
}

async fn disconnect_volume(world: &World, context: &mut Detach, fence: Fence) -> Result<(), StepError> {
    disconnect(world, context, fence, context.request.volume_id).await
}

/// Undo of an attach.
async fn take_volume_back(world: &World, context: &mut Attach, fence: Fence) -> Result<(), StepError> {
    disconnect(world, context, fence, context.request.volume_id).await
}

async fn record_volume(world: &World, context: &mut Attach, fence: Fence) -> Result<(), StepError> {
    let device = device(world, context);
    let attachments = world.volumes.attachments_of(context.server).await?;
    let info = attachments.into_iter().find(|attachment| Some(attachment.id) == device.attachment_id);
    let device = BlockDevice {
        connection_info: info.filter(|_| context.here().is_some()).map(|attachment| attachment.connection_info),
        volume_size: Some(world.volumes.volume(context.request.volume_id).await?.size_gb),
        ..device
    };
    let txn = history::succeeded(CellTxn::new().save_block_device(device), context);
    let event = (StepName::RecordVolume, InstanceAction::VolumeAttach, Phase::End);
    commit(world, context, fence, (txn, context.home.as_ref()), event).await
}

/// Deletes the attachment and the placeholder that a move kept for the source (NOVA-DIFFERENCES L24), then the record.
async fn forget_volume(world: &World, context: &mut Detach, fence: Fence) -> Result<(), StepError> {
    let volume_id = context.request.volume_id;
    let cell = context.here().map(|place| &place.cell).or(context.home.as_ref());
    let cell = cell.ok_or_else(|| StepError::Refused("the server is in no cell".into()))?.clone();
    for attachment in world.volumes.attachments_of(context.server).await? {
        if attachment.volume_id == volume_id {
            world.volumes.delete_attachment(fence, attachment.id).await?;
        }
    }
    let mut txn = CellTxn::new();
    for device in world.cell(&cell)?.block_devices(context.server).await? {
        if device.volume_id == Some(volume_id) {
            txn = txn.delete_block_device(device.uuid);
        }
    }
    let event = (StepName::ForgetVolume, InstanceAction::VolumeDetach, Phase::End);
    commit(world, context, fence, (history::succeeded(txn, context), context.home.as_ref()), event).await
}
