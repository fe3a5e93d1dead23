//! Attach and detach of a volume, at rest or between a move and its confirm (NOVA-DIFFERENCES L24).

use super::accept::{accept_again, give_back};
use super::context::{Context, Request};
use super::error::StepError;
use super::history;
use super::step::{Moot, Step, Table, Undo, work};
use super::step_name::StepName;
use super::world::World;
use crate::db::cell::CellTxn;
use crate::db::cell::block_devices::BlockDevice;
use crate::domain::fence::Fence;
use crate::domain::guest::GuestVolume;
use crate::domain::host_protocol::HostCommand;
use crate::domain::notification::{InstanceAction, Phase};
use uuid::Uuid;

/// Attach.
pub const ATTACH: Table = Table {
    steps: &[
        Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(give_back))),
        Step::reversible(StepName::ReserveVolume, work!(reserve_volume), Undo::By(work!(release_volume))),
        Step::reversible(StepName::ConnectVolume, work!(connect_volume), Undo::By(work!(take_volume_back))).moot_when(Moot::AttachedAnew),
        Step::forward(StepName::RecordVolume, work!(record_volume)),
    ],
    chooses: None,
};

/// Detach.
pub const DETACH: Table = Table {
    steps: &[
        Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(give_back))),
        Step::reversible(StepName::DisconnectVolume, work!(disconnect_volume), Undo::Nothing("a volume that is half out can only go"))
            .tried(4)
            .no_way_back(),
        Step::forward(StepName::ForgetVolume, work!(forget_volume)),
    ],
    chooses: None,
};

fn volume_of(context: &Context) -> Result<(Uuid, Option<String>), StepError> {
    match &context.request {
        Request::AttachVolume { volume_id, device_name, .. } => Ok((*volume_id, device_name.clone())),
        Request::DetachVolume { volume_id } => Ok((*volume_id, None)),
        _ => Err(StepError::Refused("no volume is named".into())),
    }
}

fn here(context: &Context) -> Result<super::context::Place, StepError> {
    context.here().cloned().ok_or_else(|| StepError::Refused("the server has no host".into()))
}

async fn reserve_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume, device) = volume_of(context)?;
    let place = here(context)?;
    history::apply_and_notify(
        world,
        context,
        fence,
        CellTxn::new(),
        (StepName::ReserveVolume, InstanceAction::VolumeAttach, Phase::Start),
        &place,
    )
    .await?;
    let id = context.derived_id(&format!("attachment:{volume}"));
    world.volumes.create_attachment(fence, id, volume, Some(&place.host), device.as_deref()).await?;
    Ok(())
}

async fn release_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume, _) = volume_of(context)?;
    Ok(world.volumes.delete_attachment(fence, context.derived_id(&format!("attachment:{volume}"))).await?)
}

async fn connect_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume_id, device) = volume_of(context)?;
    let place = here(context)?;
    let id = context.derived_id(&format!("attachment:{volume_id}"));
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

/// The host lets the volume go: the act of a detach, the undo of an attach.
async fn disconnect_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume_id, _) = volume_of(context)?;
    let place = here(context)?;
    world.ask(context, &place, fence, HostCommand::DetachVolume { volume_id }).await.map(drop)
}

/// Undo of an attach. As a debt, not from a guest that has got the volume anew since.
async fn take_volume_back(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    disconnect_volume(world, context, fence).await
}

async fn record_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume_id, device_name) = volume_of(context)?;
    let Request::AttachVolume { tag, delete_on_termination, .. } = context.request.clone() else {
        return Err(StepError::Refused("not an attach".into()));
    };
    let place = here(context)?;
    let id = context.derived_id(&format!("attachment:{volume_id}"));
    let info = world.volumes.attachments_of(context.server).await?.into_iter().find(|attachment| attachment.id == id);
    let device = BlockDevice {
        device_name,
        attachment_id: Some(id),
        connection_info: info.map(|attachment| attachment.connection_info),
        volume_size: Some(world.volumes.volume(volume_id).await?.size_gb),
        delete_on_termination,
        tag,
        ..BlockDevice::volume(context.derived_id(&format!("device:{volume_id}")), context.server, volume_id, world.env.now())
    };
    let txn = history::succeeded(CellTxn::new().save_block_device(device), context);
    history::apply_and_notify(world, context, fence, txn, (StepName::RecordVolume, InstanceAction::VolumeAttach, Phase::End), &place).await
}

/// The attachment goes, and with it what a move kept for the source (NOVA-DIFFERENCES L24); then the record of it.
async fn forget_volume(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (volume_id, _) = volume_of(context)?;
    let place = here(context)?;
    for attachment in world.volumes.attachments_of(context.server).await? {
        if attachment.volume_id == volume_id {
            world.volumes.delete_attachment(fence, attachment.id).await?;
        }
    }
    let mut txn = CellTxn::new();
    for device in world.cell(&place.cell)?.block_devices(context.server).await? {
        if device.volume_id == Some(volume_id) {
            txn = txn.delete_block_device(device.uuid);
        }
    }
    history::apply_and_notify(
        world,
        context,
        fence,
        history::succeeded(txn, context),
        (StepName::ForgetVolume, InstanceAction::VolumeDetach, Phase::End),
        &place,
    )
    .await
}
