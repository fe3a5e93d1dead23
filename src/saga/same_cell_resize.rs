//! The same-cell resize and cold migration: as the cross-cell one, but there is one record, and the local disks travel
//! through the cell's transfer area instead of the image service.

use super::accept::{accept_again, give_back};
use super::context::Context;
use super::error::StepError;
use super::guest_move::*;
use super::history;
use super::resize::*;
use super::step::{At, Deadline, Moot, Step, Table, Undo, work};
use super::step_name::StepName;
use super::world::World;
use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::InstanceChange;
use crate::db::cell::migrations::MigrationContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, TaskState, VmState};

/// The saga. Its first four steps are those of the cross-cell resize: which of the two a move is, the fourth finds out.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(give_back))),
    Step::reversible(StepName::RecordMigration, work!(record_migration), Undo::By(work!(fail_migration))).before_the_next_move(),
    Step::reversible(StepName::HoldSourceAllocation, work!(hold_source_allocation), Undo::By(work!(return_source_allocation)))
        .before_the_next_move(),
    Step::reversible(StepName::SelectDestination, work!(select_destination), Undo::By(work!(release_destination))).before_the_next_move(),
    Step::reversible(StepName::BindPortsAtTarget, work!(bind_ports_at_target), Undo::AtCandidate(work!(unbind_ports_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    Step::reversible(StepName::ReserveVolumesForTarget, work!(reserve_volumes_for_target), Undo::By(work!(release_target_volumes))),
    Step::reversible(StepName::ClaimAtTarget, work!(claim_at_target), Undo::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    Step::reversible(StepName::RecordTargetChoice, work!(record_target_choice), Undo::By(work!(clear_target_choice)))
        .before_the_next_move(),
    Step::reversible(StepName::StopSourceGuest, work!(stop_source_guest), Undo::By(work!(start_source_guest)))
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(180))
        .serving(),
    // Into the cell's transfer area, which both hosts reach.
    Step::reversible(StepName::ExportDisks, work!(export_disks), Undo::By(work!(drop_export))).within(Deadline::WithoutProgress(60)),
    Step::reversible(StepName::ReleaseSourceGuest, work!(release_source_guest), Undo::By(work!(define_source_guest_again))).serving(),
    Step::reversible(StepName::ActivateTargetPorts, work!(activate_target_ports), Undo::By(work!(activate_source_ports)))
        .moot_when(Moot::LostOwnership(At::Source))
        .serving(),
    Step::reversible(StepName::PrepareAtTarget, work!(prepare_at_target), Undo::By(work!(remove_from_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .within(Deadline::WithoutProgress(60)),
    Step::pivot(StepName::TakeOwnership, work!(take_ownership), Undo::By(work!(hand_back_ownership))),
    Step::forward_or_back(StepName::StartAtTarget, work!(start_at_target), Undo::By(work!(fence_target))).within(Deadline::Within(300)),
    // One record in one cell: the user sees the target with this commit.
    Step::forward(StepName::FinishRecord, work!(finish_record)),
    Step::forward(StepName::SaveRequestSpec, work!(save_request_spec)),
    Step::cleanup(StepName::DropExport, work!(drop_export)),
];

async fn record_target_choice(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let change = InstanceChange {
        old_flavor: Some(context.old_flavor.clone()),
        new_flavor: Some(context.new_flavor.clone()),
        old_vm_state: Some(context.prior.as_ref().map(|prior| prior.vm_state)),
        ..InstanceChange::task(Some(TaskState::ResizeMigrating))
    };
    let move_context = MigrationContext {
        migration_uuid: context.saga,
        context: serde_json::json!({ "host": target.host, "node": target.node, "resources": context.new_resources() }),
    };
    let txn = CellTxn::new()
        .instance_change(context.server, change)
        .migration_change(context.saga, target_on_record(&target, false))
        .set_migration_context(context.server, move_context);
    Ok(world.cell(&source.cell)?.apply(fence, txn).await?)
}

async fn clear_target_choice(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    ignore_missing(world.cell(&source.cell)?.apply(fence, CellTxn::new().clear_move_fields(context.server)).await)
}

async fn export_disks(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let source = context.source()?.clone();
    match world.ask(context, &source, fence, HostCommand::ExportDisks).await? {
        HostReply::Exported { manifest } => {
            context.manifest = Some(manifest);
            Ok(())
        }
        other => Err(StepError::Refused(format!("host {} answered an export with: {other}", source.host))),
    }
}

/// What the export left is removed: the undo before the pivot, the last step after it.
async fn drop_export(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let source = context.source()?.clone();
    world.ask(context, &source, fence, HostCommand::DropExport).await.map(drop)
}

async fn finish_record(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let change = InstanceChange {
        host: Some(Some(target.host.clone())),
        node: Some(Some(target.node.clone())),
        availability_zone: Some(target.availability_zone.clone()),
        flavor: context.new_flavor.clone(),
        power_state: Some(if context.ran_before() { PowerState::Running } else { PowerState::Shutdown }),
        launched_at: Some(Some(world.env.now())),
        ..InstanceChange::states(VmState::Resized, None)
    };
    let mut txn = CellTxn::new().instance_change(context.server, change).migration_status(context.saga, MigrationStatus::Finished);
    txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    txn = history::event_done(txn, context, finish_event(context), Some(&target));
    txn = history::succeeded(txn, context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishRecord, InstanceAction::ResizeFinish, Phase::End), &target).await
}

async fn save_request_spec(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let cell = world.cell_uuid(&context.target()?.cell)?;
    Ok(world.api.publish_move(fence, context.server, cell, wanted_spec(context)?).await?)
}
