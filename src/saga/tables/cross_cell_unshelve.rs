//! The unshelve into another cell: a shelved server without a host gets one in a cell to which policy lets it go.
//!
//! No guest, allocation or binding is left in the server's own cell, and the root disk is in the shelved image already. So beside the rows of
//! an unshelve within the cell only the records move: a hidden copy is made first, gets its final state when the guest runs, and is shown by
//! one commit. Users see the record in the server's own cell until then. If the unshelve fails, the server is SHELVED_OFFLOADED there.

use super::unshelve::{
    BIND_PORTS_AT_TARGET, CHECK_IMAGE, CLAIM_AT_HOST, DELETE_SHELVED_IMAGE, EVENT, PREPARE_AT_TARGET, RELEASE_SOURCE_VOLUMES,
    RESERVE_VOLUMES_FOR_TARGET, SELECT_HOST, START_AT_TARGET, TAKE_OWNERSHIP, running_at, spec_of,
};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::instance_bundle::UserFields;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::ACCEPT;
use crate::saga::context::Unshelve;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step::{Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::records::{delete_hidden_records, delete_target_records, pay_hidden_records, pay_target_records};
use crate::saga::steps::volumes::attachments;
use crate::saga::world::World;

/// The saga.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectHost) };

const STEPS: &[Step] = &[
    ACCEPT,
    CHECK_IMAGE,
    SELECT_HOST,
    // Hidden, because the mapping still names the server's own cell. Before the claim, so that the host finds a record of what it holds.
    Step::reversible(StepName::CreateTargetRecords, work!(create_records), Undo::By(work!(delete_target_records)))
        .paid_by(work!(pay_target_records)),
    CLAIM_AT_HOST,
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    PREPARE_AT_TARGET,
    TAKE_OWNERSHIP,
    START_AT_TARGET,
    // The whole final state while the record is still hidden, so that users see all of it at once.
    Step::forward(StepName::FinishTargetRecord, work!(finish_records)),
    // Unhide, then the mapping, then hide: at each moment there is a visible record, and the mapping decides between two.
    Step::forward(StepName::Publish, work!(publish)),
    // After the mapping, because until then the visible record names the placeholders.
    RELEASE_SOURCE_VOLUMES,
    Step::cleanup(StepName::DeleteSourceRecords, work!(delete_records_at_home)).paid_by(work!(pay_records_at_home)),
    DELETE_SHELVED_IMAGE,
];

/// Creates a hidden copy of the server's records in the target's cell.
async fn create_records(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let bundle = world.cell(context.home()?)?.export_bundle(context.server).await?;
    let cell = &context.target()?.cell;
    Ok(world.cell(cell)?.apply(fence, CellTxn::new().import_bundle(bundle, true)).await?)
}

/// Writes the copy in its final state, with the merged history of both cells (NOVA-DIFFERENCES L7) and what users have changed meanwhile.
async fn finish_records(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let home = world.cell(context.home()?)?;
    home.apply(fence, history::event_done(CellTxn::new(), context, EVENT, Some(&target))).await?;
    let bundle = home.export_bundle(context.server).await?;
    let users = UserFields::from(&bundle);
    let change = running_at(world, &target, bundle.instance.system_metadata);
    let txn = CellTxn::new()
        .instance_change(context.server, change)
        .copy_user_fields(context.server, users)
        .merge_actions(context.server, bundle.actions);
    let txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    Ok(world.cell(&target.cell)?.apply(fence, history::succeeded(txn, context)).await?)
}

/// Shows the copy to users, and stores the zone with the same commit (INVARIANTS D1). The notification comes last, so that its reader finds
/// the server there.
async fn publish(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.cell(&target.cell)?.apply(fence, CellTxn::new().hidden(context.server, false)).await?;
    world.api.publish_move(fence, context.server, world.cell_uuid(&target.cell)?, spec_of(context)?).await?;
    world.cell(context.home()?)?.apply(fence, CellTxn::new().hidden(context.server, true)).await?;
    history::notify(world, context, StepName::Publish, InstanceAction::Unshelve, Phase::End, &target).await;
    Ok(())
}

/// Removes the records from the cell that the server has left.
async fn delete_records_at_home(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    delete_hidden_records(world, context, fence, context.home()?).await
}

async fn pay_records_at_home(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    pay_hidden_records(world, context, fence, context.home()?).await
}
