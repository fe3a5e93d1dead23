//! An image of a server: a snapshot, or a backup that replaces the oldest of its kind. The guest stands still while its root disk is read, and
//! the server keeps its state.

use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::InstanceChange;
use crate::domain::fence::Fence;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::ACCEPT;
use crate::saga::context::CreateImage;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::snapshot_image::{create_image, give_image_up, let_guest_run, rotate_backups, upload_image};
use crate::saga::world::World;

/// The saga.
pub const TABLE: Table = Table {
    steps: &[
        ACCEPT,
        Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells")),
        // The record before the bytes, so that there is a record to delete however the upload ends.
        Step::reversible(StepName::CreateImage, work!(create_image), Undo::By(work!(give_image_up))),
        Step::reversible(StepName::UploadImage, work!(upload_image), Undo::By(work!(let_guest_run)))
            .moot_when(Moot::OutOfHand(At::Source))
            .within(Deadline::WithoutProgress(60))
            .serving(),
        Step::forward(StepName::RecordImage, work!(record_image)),
        Step::cleanup(StepName::RotateBackups, work!(rotate_backups)),
    ],
    chooses: None,
};

async fn begin(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::Begin, InstanceAction::Snapshot, Phase::Start), &here).await
}

/// Ends the task. The server is as before.
async fn record_image(world: &World, context: &mut CreateImage, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, InstanceChange::task(None)), context);
    let told = (StepName::RecordImage, InstanceAction::Snapshot, Phase::End);
    history::apply_and_notify(world, context, fence, txn, told, &here).await
}
