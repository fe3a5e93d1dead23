//! Rescue and unrescue: the guest boots from the disk of an image, beside its own disks, until its user has mended those.

use super::power::{self, BEGIN, on_guest, record_running, stop_guest};
use super::rebuild::start_guest_again;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Power, Rescue, first_boot};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// The undo of each step on the guest. It is one work, because a debt that is paid late must not stop a guest that runs from its own disks.
const BACK: Undo = Undo::By(work!(back_to_own_disks));

/// Rescue.
pub const RESCUE: Operation = Operation::new("rescue", &[("rescue", RESCUE_TABLE)], |_| RESCUE_TABLE);

const RESCUE_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::CheckImage, work!(check_image), Undo::Nothing("it changes nothing")),
    Step::reversible(StepName::StopGuest, work!(stop_guest), BACK)
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(180))
        .serving(),
    Step::reversible(StepName::BuildRescue, work!(build_rescue), BACK)
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::WithoutProgress(60))
        .tried(3)
        .serving(),
    Step::reversible(StepName::StartGuest, work!(start_guest), BACK)
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(300))
        .tried(4)
        .serving(),
    Step::forward(StepName::RecordRescued, work!(record_rescued)),
]);

/// An unrescue whose rescue disk may be gone leaves the server in ERROR.
const NOT_UNDONE: Undo = Undo::Nothing("the rescue disk may be gone: a hard reboot starts the guest from its own");

/// Unrescue.
pub const UNRESCUE: Operation = Operation::new("unrescue", &[("unrescue", UNRESCUE_TABLE)], |_| UNRESCUE_TABLE);

const UNRESCUE_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    on_guest(StepName::StopGuest, work!(stop_guest), 180),
    Step::reversible(StepName::RemoveRescue, work!(remove_rescue), NOT_UNDONE).tried(4).serving().no_way_back(),
    Step::reversible(StepName::StartGuest, work!(power::start_guest), NOT_UNDONE)
        .within(Deadline::Within(300))
        .tried(4)
        .serving()
        .no_way_back(),
    Step::forward(StepName::RecordRunning, work!(record_running)),
]);

/// Checks, before the guest stops, that the image can be used and the guest's password can be read.
async fn check_image(world: &World, context: &mut Rescue, fence: Fence) -> Result<(), StepError> {
    first_boot::read(context, &world.env)?;
    let image = world.usable_image(context, context.request.image_id).await?;
    if image.status != "active" {
        return Err(StepError::Refused(reason!("Image {} is {}, not active.", image.id, image.status)));
    }
    let here = context.source()?.clone();
    let event = (StepName::CheckImage, InstanceAction::Rescue, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &here).await
}

async fn build_rescue(world: &World, context: &mut Rescue, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let (config_drive, secrets) = first_boot::read(context, &world.env)?;
    let sealed = Some(world.seal_for(&here, &secrets).await?);
    let rescue = HostCommand::RescueGuest { image_id: context.request.image_id, config_drive, sealed };
    world.ask(context, &here, fence, rescue).await.map(drop)
}

/// Undo: removes the rescue disk, and starts the guest from its own disks if it ran before.
async fn back_to_own_disks(world: &World, context: &mut Rescue, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::UnrescueGuest).await?;
    start_guest_again(world, context, fence).await
}

async fn start_guest(world: &World, context: &mut Rescue, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::StartGuest).await.map(drop)
}

async fn record_rescued(world: &World, context: &mut Rescue, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let change = InstanceChange { power_state: Some(PowerState::Running), ..InstanceChange::states(VmState::Rescued, None) };
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, change), context);
    let event = (StepName::RecordRescued, InstanceAction::Rescue, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await
}

async fn remove_rescue(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::UnrescueGuest).await.map(drop)
}
