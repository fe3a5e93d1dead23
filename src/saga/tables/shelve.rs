//! Shelve: the guest stops, and an image gets its root disk. Then the server stays on its host as SHELVED, or leaves it in the same
//! operation (`shelve_offload`). A server on a volume needs no image and always leaves.

use super::power::stop_guest;
use super::shelve_offload::{DISOWN, DROP_ALLOCATION, HOLD_VOLUMES, RECORD_OFFLOADED, RELEASE_SOURCE_PORTS, REMOVE_GUEST};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Context, OFFLOAD_EVENT, ServerFacts, Shelve};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::shelf;
use crate::saga::world::World;

/// The operation.
pub const OPERATION: Operation =
    Operation::new("shelve", &[("shelve", TABLE), ("shelve_and_offload", AND_OFFLOAD)], |context| match context {
        Context::Shelve(shelve) if shelve.offloads() => AND_OFFLOAD,
        _ => TABLE,
    });

/// The saga of a server that stays on its host.
pub const TABLE: Table =
    Table { steps: &[ACCEPT, BEGIN, CREATE_SHELVED_IMAGE, STOP_GUEST, UPLOAD_SHELVED_IMAGE, RECORD_SHELVED], chooses: None };

/// The saga of a server that leaves its host at once. Its first five steps are those of [`TABLE`], because the request alone does not say
/// whether the server's root disk is a volume.
pub const AND_OFFLOAD: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    CREATE_SHELVED_IMAGE,
    STOP_GUEST,
    UPLOAD_SHELVED_IMAGE,
    DISOWN,
    RECORD_SHELVED,
    REMOVE_GUEST,
    RELEASE_SOURCE_PORTS,
    HOLD_VOLUMES,
    DROP_ALLOCATION,
    RECORD_OFFLOADED,
]);

const BEGIN: Step = Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells"));

/// The record before the bytes, so that there is a record to delete however the upload ends.
const CREATE_SHELVED_IMAGE: Step =
    Step::reversible(StepName::CreateShelvedImage, work!(shelf::create_image), Undo::By(work!(shelf::give_image_up)));

const STOP_GUEST: Step = Step::reversible(StepName::StopGuest, work!(stop_guest), Undo::By(work!(start_guest_again)))
    .moot_when(Moot::OutOfHand(At::Source))
    .within(Deadline::Within(180))
    .serving();

const UPLOAD_SHELVED_IMAGE: Step =
    Step::reversible(StepName::UploadShelvedImage, work!(shelf::upload_image), Undo::Nothing("create_shelved_image deletes the image"))
        .within(Deadline::WithoutProgress(60));

const RECORD_SHELVED: Step = Step::forward(StepName::RecordShelved, work!(record_shelved));

async fn begin(world: &World, context: &mut Shelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::Begin, InstanceAction::Shelve, Phase::Start), &here).await
}

/// Undo: starts the guest if it ran. The memory of a paused or suspended guest went with its power, so its server is SHUTOFF.
async fn start_guest_again(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    if context.ran_before() {
        world.ask(context, &here, fence, HostCommand::StartGuest).await?;
    } else if let Some(prior) = context.prior.as_mut().filter(|prior| prior.power() != PowerState::Shutdown) {
        prior.vm_state = VmState::Stopped;
        world.ask(context, &here, fence, HostCommand::StopGuest { grace_ms: 0 }).await?;
    }
    Ok(())
}

/// Writes SHELVED with the image. An image of an earlier shelving, whose unshelve was given up, goes.
async fn record_shelved(world: &World, context: &mut Shelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let metadata = world.cell(&here.cell)?.instance(context.server).await?.system_metadata;
    let earlier = shelf::image_of(&metadata).filter(|earlier| Some(*earlier) != context.image());
    shelf::delete_image(world, context, fence, earlier).await?;
    let goes_on = context.offloads();
    let change = InstanceChange {
        power_state: Some(PowerState::Shutdown),
        system_metadata: Some(shelf::shelved(metadata, world.env.now(), &here.host, context.image())),
        ..InstanceChange::states(VmState::Shelved, goes_on.then_some(TaskState::ShelvingOffloading))
    };
    let mut txn = CellTxn::new().instance_change(context.server, change);
    txn = match goes_on {
        false => history::succeeded(txn, context),
        // Its leading event is that of the offload.
        true if context.volume_backed => txn,
        true => history::event_started(history::leading_done(txn, context), context, OFFLOAD_EVENT, Some(&here)),
    };
    let event = (StepName::RecordShelved, InstanceAction::Shelve, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await?;
    if goes_on {
        history::notify(world, context, StepName::RecordShelved, InstanceAction::ShelveOffload, Phase::Start, &here).await;
    }
    Ok(())
}
