//! The records of a server and of its move, in one cell or in both.

use super::allocation::target_spec;
use super::guest::finish_event;
use super::port_shares;
use super::volumes::attachments;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::{Migration, MigrationChange, MigrationContext, MigrationStatus, MigrationType};
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason::ReasonCode;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{Context, HostNeed, Part, Place, Resize, ServerFacts};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// Creates the migration's record unless the accept has, as it has since release 0.2.0.
pub async fn record_migration(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let migration = resize_record(world, context).await?;
    world.cell(&context.source()?.cell)?.apply(fence, CellTxn::new().create_migration(migration)).await?;
    context.new_flavor = Some((*context.request.flavor).clone());
    Ok(())
}

/// Returns the record of a resize or a cold migration, `pre-migrating`.
pub async fn resize_record(world: &World, context: &Resize) -> Result<Migration, StepError> {
    let migration_type = if context.request.migrate { MigrationType::Migration } else { MigrationType::Resize };
    Ok(Migration { migration_type, ..new_migration(world, context, &context.request.flavor).await? })
}

/// Returns the record of a move to this flavor that has just begun.
pub async fn new_migration(world: &World, context: &ServerFacts, new: &Flavor) -> Result<Migration, StepError> {
    let old = context.old_flavor.clone().unwrap_or_default();
    let source = context.source()?;
    let (old_instance_type_id, new_instance_type_id) = futures::try_join!(flavor_number(world, &old.id), flavor_number(world, &new.id))?;
    Ok(Migration {
        source_compute: source.host.clone(),
        source_node: source.node.clone(),
        old_flavor_id: old.id.clone(),
        new_flavor_id: new.id.clone(),
        old_instance_type_id,
        new_instance_type_id,
        user_id: context.caller.user_id.clone(),
        project_id: context.caller.project_id.clone(),
        ..Migration::new(context.saga, context.server, MigrationType::Migration, world.env.now())
    })
}

/// Returns a flavor's number in the API database; 0 if the flavor has been deleted since the server got it.
async fn flavor_number(world: &World, flavorid: &str) -> Result<i32, StepError> {
    match world.api.flavor(flavorid).await {
        Ok(record) => Ok(record.id),
        Err(DbError::NotFound(_)) => Ok(0),
        Err(other) => Err(other.into()),
    }
}

/// Undo: gives the record the status of its failure.
pub async fn fail_migration(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let cell = context.source()?.cell.clone();
    let db = world.cell(&cell)?;
    // Raises the fence first: otherwise a late act could create the record after this look.
    if stands(Guard::TombstoneOfMigration) {
        db.apply(fence, CellTxn::new()).await?;
    }
    ignore_missing(db.apply(fence, CellTxn::new().migration_status(context.saga, status_of_failure(context.part()))).await)
}

/// Returns `conflict` if the scheduler refused the host that the caller named, `failed` if an evacuation failed after a host was chosen, and
/// otherwise `error`.
pub fn status_of_failure(context: &dyn Part) -> MigrationStatus {
    let is_named = context.names_host();
    let no_host = context.target.is_none() && context.has_failed_with(ReasonCode::NoValidHost);
    let at_target = context.host_need() == HostNeed::SourceDown && context.target.is_some() && !context.cancelled;
    match (is_named && no_host, at_target) {
        (true, _) => MigrationStatus::Conflict,
        (_, true) => MigrationStatus::Failed,
        _ => MigrationStatus::Error,
    }
}

/// Creates a hidden copy of the server's records in the target cell.
pub async fn create_target_records(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let mut bundle = world.cell(&source.cell)?.export_bundle(context.server).await?;
    bundle.migration_context = None;
    Ok(world.cell(&target.cell)?.apply(fence, CellTxn::new().import_bundle(bundle, true)).await?)
}

/// Undo: removes the copy with all its records.
pub async fn delete_target_records(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    delete_hidden_records(world, context, fence, &target.cell).await
}

/// Payment of [`delete_target_records`].
pub async fn pay_target_records(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    pay_hidden_records(world, context, fence, &target.cell).await
}

/// Removes the server's records from a cell, unless they are the visible ones (NOVA-DIFFERENCES L1).
pub async fn delete_hidden_records(world: &World, context: &ServerFacts, fence: Fence, cell: &str) -> Result<(), StepError> {
    if is_visible(world, context, cell).await? {
        return Ok(());
    }
    Ok(world.cell(cell)?.apply(fence, CellTxn::new().hard_delete_instance(context.server)).await?)
}

/// Payment of [`delete_hidden_records`]. If the records are visible by now, or a later move's, only the migration record of the move that
/// owes goes, unless that came along as history.
pub async fn pay_hidden_records(world: &World, context: &ServerFacts, fence: Fence, cell: &str) -> Result<(), StepError> {
    let txn = match is_visible(world, context, cell).await? || debt::records_in_use_again(world, context, cell).await? {
        true => CellTxn::new().forget_live_migration(context.move_id()),
        false => CellTxn::new().hard_delete_instance(context.server),
    };
    Ok(world.cell(cell)?.apply(fence, txn).await?)
}

/// True if the mapping names this cell, so that users see its record of the server.
async fn is_visible(world: &World, context: &ServerFacts, cell: &str) -> Result<bool, StepError> {
    match world.api.instance_mapping(context.server).await {
        Ok(mapping) => Ok(stands(Guard::VisibleRecord) && mapping.cell_uuid == Some(world.cell_uuid(cell)?)),
        Err(DbError::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Records the target on both records: operators see it on the source's, and the target's needs it when it is published.
pub async fn record_target_choice_in_both_cells(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let prior = context.prior.as_ref().map(|prior| prior.vm_state);
    let flavors = |change: InstanceChange| InstanceChange {
        old_flavor: Some(context.old_flavor.clone()),
        new_flavor: Some(context.new_flavor.clone()),
        old_vm_state: Some(prior),
        ..change
    };
    let move_context = MigrationContext { migration_uuid: context.saga, context: move_context_of(context, &target) };
    let at_target = CellTxn::new()
        .instance_change(
            context.server,
            flavors(InstanceChange { availability_zone: Some(target.availability_zone.clone()), ..InstanceChange::default() }),
        )
        .migration_change(context.saga, target_on_record(&target, true))
        .set_migration_context(context.server, move_context.clone());
    let at_source = CellTxn::new()
        .instance_change(context.server, flavors(InstanceChange::task(Some(TaskState::ResizeMigrating))))
        .migration_change(context.saga, target_on_record(&target, true))
        .set_migration_context(context.server, move_context);
    // Concurrently, because neither record needs the other and both must be tried.
    let (at_target, at_source) =
        futures::join!(world.cell(&target.cell)?.apply(fence, at_target), world.cell(&source.cell)?.apply(fence, at_source));
    at_target?;
    Ok(at_source?)
}

pub async fn record_target_choice_in_cell(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let change = InstanceChange {
        old_flavor: Some(context.old_flavor.clone()),
        new_flavor: Some(context.new_flavor.clone()),
        old_vm_state: Some(context.prior.as_ref().map(|prior| prior.vm_state)),
        ..InstanceChange::task(Some(TaskState::ResizeMigrating))
    };
    let move_context = MigrationContext { migration_uuid: context.saga, context: move_context_of(context, &target) };
    let txn = CellTxn::new()
        .instance_change(context.server, change)
        .migration_change(context.saga, target_on_record(&target, false))
        .set_migration_context(context.server, move_context);
    Ok(world.cell(&source.cell)?.apply(fence, txn).await?)
}

/// Returns what a confirm or a revert may need to know of the move.
fn move_context_of(context: &ServerFacts, target: &Place) -> serde_json::Value {
    let resources = context.new_resources();
    serde_json::json!({ "host": target.host, "node": target.node, "resources": resources, "ports": port_shares::recorded(context) })
}

/// Undo: clears the target from the source's record (NOVA-DIFFERENCES L14).
pub async fn clear_target_choice(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    ignore_missing(world.cell(&source.cell)?.apply(fence, CellTxn::new().clear_move_fields(context.server)).await)
}

/// Writes the target's record in its final state, with the merged history of both cells (NOVA-DIFFERENCES L7).
pub async fn finish_target_record(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let done = history::event_done(CellTxn::new(), context, finish_event(context), Some(&target));
    world.cell(&source.cell)?.apply(fence, history::leading_done(done, context)).await?;
    let history_so_far = world.cell(&source.cell)?.history(context.server).await?;
    let change = resized_at(world, context, &target);
    let mut txn = CellTxn::new()
        .instance_change(context.server, change)
        .migration_status(context.saga, MigrationStatus::Finished)
        .merge_actions(context.server, history_so_far);
    txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    Ok(world.cell(&target.cell)?.apply(fence, history::succeeded(txn, context)).await?)
}

/// Returns the change of the record of a server that waits at its target for confirm or revert.
fn resized_at(world: &World, context: &Resize, target: &Place) -> InstanceChange {
    let power = if context.ran_before() { PowerState::Running } else { PowerState::Shutdown };
    InstanceChange {
        flavor: context.new_flavor.clone(),
        launched_at: Some(Some(world.env.now())),
        ..arrival(target, VmState::Resized, power)
    }
}

/// Returns the change of the record of a server that has come to this place.
pub fn arrival(place: &Place, vm_state: VmState, power: PowerState) -> InstanceChange {
    InstanceChange {
        host: Some(Some(place.host.clone())),
        node: Some(Some(place.node.clone())),
        availability_zone: Some(place.availability_zone.clone()),
        power_state: Some(power),
        ..InstanceChange::states(vm_state, None)
    }
}

pub async fn finish_record(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let change = resized_at(world, context, &target);
    let mut txn = CellTxn::new().instance_change(context.server, change).migration_status(context.saga, MigrationStatus::Finished);
    txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    txn = history::event_done(txn, context, finish_event(context), Some(&target));
    txn = history::succeeded(txn, context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishRecord, InstanceAction::ResizeFinish, Phase::End), &target).await
}

/// Shows the target's record to users: the mapping alone decides which record they see (INVARIANTS D1). The notification comes last, so that
/// its reader finds the server there.
pub async fn publish(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    world.cell(&target.cell)?.apply(fence, CellTxn::new().hidden(context.server, false)).await?;
    world.api.publish_move(fence, context.server, world.cell_uuid(&target.cell)?, target_spec(context)?).await?;
    world.cell(&source.cell)?.apply(fence, CellTxn::new().hidden(context.server, true)).await?;
    history::notify(world, context, StepName::Publish, InstanceAction::ResizeFinish, Phase::End, &target).await;
    Ok(())
}

pub async fn save_request_spec(world: &World, context: &mut Resize, fence: Fence) -> Result<(), StepError> {
    let cell = world.cell_uuid(&context.target()?.cell)?;
    Ok(world.api.publish_move(fence, context.server, cell, target_spec(context)?).await?)
}

/// Takes a missing record as changed.
pub fn ignore_missing(result: Result<(), DbError>) -> Result<(), StepError> {
    match result {
        Err(DbError::NotFound(_)) => Ok(()),
        other => Ok(other?),
    }
}

/// Returns the change that names the target on the migration's record.
pub fn target_on_record(target: &Place, cross_cell: bool) -> MigrationChange {
    MigrationChange {
        cross_cell_move: Some(cross_cell),
        ..MigrationChange::target(Some(&target.host), Some(&target.node), Some("127.0.0.1"))
    }
}
