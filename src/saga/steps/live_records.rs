//! The records, ports and volumes of a live migration.

use super::live_guest::COPY;
use super::ports::activate_target_ports;
use super::records::{arrival, ignore_missing, new_migration, target_on_record};
use super::volumes::attachments;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::{Migration, MigrationStatus, MigrationType};
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason::ReasonCode;
use crate::domain::server::{PowerState, VmState};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{LiveMigrate, Part};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// The target's last event.
const ARRIVE: &str = "compute_post_live_migration_at_destination";

/// Returns the migration's record, `accepted`. A host that the scheduler is not asked about stands there at once.
pub async fn live_record(world: &World, context: &LiveMigrate) -> Result<Migration, StepError> {
    let flavor = context.old_flavor.clone().unwrap_or_default();
    Ok(Migration {
        migration_type: MigrationType::LiveMigration,
        status: MigrationStatus::Accepted,
        dest_compute: context.request.host.clone().filter(|_| context.request.unchecked),
        ..new_migration(world, context, &flavor).await?
    })
}

/// Creates the migration's record unless the accept has, as it has since release 0.2.0.
pub async fn record_live_migration(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let migration = live_record(world, context).await?;
    world.cell(&context.source()?.cell)?.apply(fence, CellTxn::new().create_migration(migration)).await?;
    context.new_flavor = Some(context.old_flavor.clone().unwrap_or_default());
    Ok(())
}

/// Undo: gives the record the status that says why the server stays.
pub async fn end_live_migration(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let cell = context.source()?.cell.clone();
    let db = world.cell(&cell)?;
    // Raises the fence first: otherwise a late act could create the record after this look.
    if stands(Guard::TombstoneOfMigration) {
        db.apply(fence, CellTxn::new()).await?;
    }
    ignore_missing(db.apply(fence, CellTxn::new().migration_status(context.saga, status_of_live_end(context))).await)
}

/// Returns the status that says why the server stays.
pub fn status_of_live_end(context: &LiveMigrate) -> MigrationStatus {
    let named = context.names_host();
    let refused = context.target.is_none() && context.has_failed_with(ReasonCode::NoValidHost);
    match () {
        () if context.cancelled => MigrationStatus::Cancelled,
        () if named && refused => MigrationStatus::Conflict,
        () if context.taken_up => MigrationStatus::Failed,
        () => MigrationStatus::Error,
    }
}

/// Records the target on the migration: operators and waiting callers see it from here on.
pub async fn record_live_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let txn = CellTxn::new().migration_change(context.saga, target_on_record(&target, false));
    Ok(world.cell(&target.cell)?.apply(fence, txn).await?)
}

/// Leads traffic to the target: the guest is paused.
pub async fn switch_ports(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let txn = CellTxn::new().migration_status(context.saga, MigrationStatus::PostMigrating);
    let txn = history::event_done(txn, context, COPY, Some(&source));
    let event = (StepName::ActivateTargetPorts, InstanceAction::LiveMigrationPost, Phase::Start);
    history::apply_and_notify(world, context, fence, txn, event, &source).await?;
    activate_target_ports(world, context, fence).await
}

/// Writes the record in its final state.
pub async fn finish_live_record(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let (vm_state, power) =
        if context.was_paused() { (VmState::Paused, PowerState::Paused) } else { (VmState::Active, PowerState::Running) };
    let change = InstanceChange { progress: Some(0), ..arrival(&target, vm_state, power) };
    let mut txn = CellTxn::new().instance_change(context.server, change).migration_status(context.saga, MigrationStatus::Completed);
    txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    txn = history::event_started(txn, context, ARRIVE, Some(&target));
    txn = history::event_done(txn, context, ARRIVE, Some(&target));
    txn = history::succeeded(txn, context);
    let event = (StepName::FinishRecord, InstanceAction::LiveMigrationPostDest, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &target).await
}

/// Removes the attachments that connect the source host.
pub async fn release_left_volumes(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.source_attachment).await?;
    }
    Ok(())
}

/// Has the target empty the transfer area that it shares with the source, which may be dead. An area of the source's own is emptied with its
/// guest.
pub async fn drop_transfer(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.ask(context, &target, fence, HostCommand::DropExport).await.map(drop)
}
