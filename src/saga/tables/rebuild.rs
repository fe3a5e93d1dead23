//! Rebuild: the server keeps its id, addresses and volumes and gets a fresh root disk from an image, on its own host. It
//! recovers a server in ERROR whose guest is gone.

use super::power::stop_guest;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::request_spec::RequestSpec;
use crate::domain::secret::Secret;
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Context, Rebuild, ServerFacts, first_boot};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::guest::guest_spec;
use crate::saga::steps::ports::activate_ports;
use crate::saga::steps::volumes::{attachments, connect_volumes};
use crate::saga::world::World;

/// The operation.
pub const OPERATION: Operation =
    Operation::new("rebuild", &[("rebuild", TABLE), ("rebuild_of_root_volume", OF_ROOT_VOLUME)], |context| match context {
        Context::Rebuild(rebuild) if rebuild.request.reimages_root_volume => OF_ROOT_VOLUME,
        _ => TABLE,
    });

/// The saga for a root disk on the host.
pub const TABLE: Table = Table { steps: &[ACCEPT, CHECK_IMAGE, STOP_GUEST, BUILD_GUEST, START_GUEST, FINISH_REBUILD], chooses: None };

/// The saga for a root disk that is a volume and is filled anew (microversion 2.93).
pub const OF_ROOT_VOLUME: Table =
    Table { steps: &[ACCEPT, CHECK_IMAGE, STOP_GUEST, REIMAGE_VOLUME, BUILD_GUEST, START_GUEST, FINISH_REBUILD], chooses: None };

const CHECK_IMAGE: Step = Step::reversible(StepName::CheckImage, work!(check_image), Undo::Nothing("it changes nothing"));

const STOP_GUEST: Step = Step::reversible(StepName::StopGuest, work!(stop_guest), Undo::By(work!(start_guest_again)))
    .moot_when(Moot::OutOfHand(At::Source))
    .within(Deadline::Within(180))
    .serving();

const REIMAGE_VOLUME: Step = Step::reversible(
    StepName::ReimageVolume,
    work!(reimage_volume),
    Undo::Nothing("the volume's old bytes may be gone: the server is in ERROR and can be rebuilt again"),
)
.within(Deadline::Within(600))
.tried(3)
.serving()
.no_way_back();

const BUILD_GUEST: Step = Step::reversible(
    StepName::BuildGuest,
    work!(build_guest),
    Undo::Nothing("the old root disk is gone: the server is in ERROR and can be rebuilt again"),
)
.within(Deadline::WithoutProgress(60))
.tried(3)
.serving()
.no_way_back();

const START_GUEST: Step = Step::reversible(StepName::StartGuest, work!(start_guest), Undo::Nothing("a hard reboot starts it"))
    .within(Deadline::Within(300))
    .tried(4)
    .serving()
    .no_way_back();

const FINISH_REBUILD: Step = Step::forward(StepName::FinishRebuild, work!(finish_rebuild));

/// Checks, before the old disk goes, that the image can be used and the guest's secrets can be read.
async fn check_image(world: &World, context: &mut Rebuild, _: Fence) -> Result<(), StepError> {
    first_boot::read(context, &world.env)?;
    let image = world.usable_image(context, context.request.image_id).await?;
    if image.status != "active" {
        return Err(StepError::Refused(reason!("Image {} is {}, not active.", image.id, image.status)));
    }
    Ok(())
}

/// Undo: starts the old guest again. Reached only while its disk is untouched.
pub(super) async fn start_guest_again(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    if context.ran_before() && !context.guest_lost {
        world.ask(context, &here, fence, HostCommand::StartGuest).await?;
    }
    Ok(())
}

/// Disconnects the root volume from the guest and fills it with the image.
async fn reimage_volume(world: &World, context: &mut Rebuild, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let image = context.request.image_id;
    let root = context.volumes.iter().find(|volume| volume.boot_index == Some(0));
    let volume_id = root.ok_or_else(|| StepError::Refused("The server has no root volume.".into()))?.volume_id;
    world.ask(context, &here, fence, HostCommand::DetachVolume { volume_id }).await?;
    Ok(world.volumes.reimage_volume(fence, &context.caller, volume_id, image).await?)
}

async fn build_guest(world: &World, context: &mut Rebuild, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let rebuild = context.request.clone();
    activate_ports(world, context, fence, &here.host).await?;
    let volumes = connect_volumes(world, context, fence, &here, |volume| volume.source_attachment).await?;
    let disks = if context.volume_backed { DiskSource::Volume } else { DiskSource::Image { image_id: rebuild.image_id } };
    let flavor = context.old_flavor.clone().unwrap_or_default();
    let mut spec = guest_spec(world, context, &here, flavor, disks, volumes).await?;
    let (config, mut secrets) = first_boot::read(context, &world.env)?;
    if secrets.user_data.is_none() {
        secrets.user_data = world.cell(&here.cell)?.instance(context.server).await?.user_data.map(Secret::new);
    }
    (spec.config_drive, spec.sealed) = (config, Some(world.seal_for(&here, &secrets).await?));
    world.ask(context, &here, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await?;
    for volume in &context.volumes {
        world.volumes.complete_attachment(fence, volume.source_attachment).await?;
    }
    Ok(())
}

/// Starts the guest, unless the server was off.
async fn start_guest(world: &World, context: &mut Rebuild, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    if starts(context) {
        world.ask(context, &here, fence, HostCommand::StartGuest).await?;
    }
    Ok(())
}

fn starts(context: &ServerFacts) -> bool {
    context.prior.as_ref().is_none_or(|prior| prior.vm_state != VmState::Stopped)
}

async fn finish_rebuild(world: &World, context: &mut Rebuild, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let rebuild = context.request.clone();
    let (vm_state, power) = if starts(context) { (VmState::Active, PowerState::Running) } else { (VmState::Stopped, PowerState::Shutdown) };
    let change = InstanceChange {
        // A volume-backed server has no image: with an image, its flavor's root disk would count.
        image_ref: (!context.volume_backed).then(|| rebuild.image_id.to_string()),
        display_name: rebuild.name.clone(),
        display_description: rebuild.description.clone(),
        key_name: rebuild.key_name.clone(),
        power_state: Some(power),
        launched_at: Some(Some(world.env.now())),
        ..InstanceChange::states(vm_state, None)
    };
    let mut txn = CellTxn::new().instance_change(context.server, change);
    if let Some(metadata) = rebuild.metadata {
        txn = txn.replace_metadata(context.server, metadata);
    }
    txn = attachments(world, context, &here.cell, txn, |volume| volume.source_attachment).await?;
    txn = history::succeeded(txn, context);
    if let Some(spec) = context.request_spec.clone() {
        let spec = RequestSpec { image_id: Some(rebuild.image_id), image_properties: rebuild.image_properties, ..spec };
        world.api.publish_move(fence, context.server, world.cell_uuid(&here.cell)?, spec).await?;
    }
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishRebuild, InstanceAction::Rebuild, Phase::End), &here).await
}
