//! An image of a server: a snapshot, or a backup that replaces the oldest of its kind. The guest stands still while its root disk is read, and
//! the server keeps its state. The image of a volume-backed server has no bytes: it names snapshots of the server's volumes, which are taken
//! while the guest runs.

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::ACCEPT;
use crate::saga::context::CreateImage;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::snapshot_image::{create_image, give_image_up, let_guest_run, pay_running_guest, rotate_backups, upload_image};
use crate::saga::steps::volume_snapshots::{activate_image, create_image_of_snapshots, create_snapshots, delete_snapshots, take_snapshots};
use crate::saga::world::World;

/// The operation.
pub const OPERATION: Operation =
    Operation::new("create_image", &[("create_image", TABLE), ("create_image_of_volumes", OF_VOLUMES)], |context| {
        if context.volume_backed { OF_VOLUMES } else { TABLE }
    });

/// The saga for a root disk on the host.
pub const TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells")),
    // The record before the bytes, so that there is a record to delete however the upload ends.
    Step::reversible(StepName::CreateImage, work!(create_image), Undo::By(work!(give_image_up))),
    Step::reversible(StepName::UploadImage, work!(upload_image), Undo::By(work!(let_guest_run)))
        .paid_by(work!(pay_running_guest))
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::WithoutProgress(60))
        .serving(),
    RECORD_IMAGE,
    Step::cleanup(StepName::RotateBackups, work!(rotate_backups)),
]);

/// The saga for a root disk that is a volume.
pub const OF_VOLUMES: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::Begin, work!(begin_of_volumes), Undo::Nothing("it only tells")),
    // Their records first, because a quota may refuse them.
    Step::reversible(StepName::CreateSnapshots, work!(create_snapshots), Undo::By(work!(delete_snapshots))),
    Step::reversible(StepName::CreateImage, work!(create_image_of_snapshots), Undo::By(work!(give_image_up))),
    Step::reversible(StepName::TakeSnapshots, work!(take_snapshots), Undo::Nothing("create_snapshots deletes them"))
        .within(Deadline::Within(600)),
    Step::reversible(StepName::ActivateImage, work!(activate_image), Undo::Nothing("create_image deletes the image")),
    RECORD_IMAGE,
]);

const RECORD_IMAGE: Step = Step::forward(StepName::RecordImage, work!(record_image));

async fn begin(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::Begin, InstanceAction::Snapshot, Phase::Start), &here).await
}

/// Chooses the volumes, too, so that the undo of their snapshots knows them.
async fn begin_of_volumes(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let devices = world.cell(&context.source()?.cell)?.block_devices(context.server).await?;
    context.volumes_to_snapshot = devices.iter().filter(|device| device.is_volume()).filter_map(|device| device.volume_id).collect();
    begin(world, context, fence).await
}

/// Ends the task. The server is as before.
async fn record_image(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, InstanceChange::task(None)), context);
    let event = (StepName::RecordImage, InstanceAction::Snapshot, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await
}
