//! Confirm: the server stays at the move's target, and what the source kept for a revert goes. Forward-only from its first
//! effect; clean-ups at a source that does not answer are owed until it returns (NOVA-DIFFERENCES L12, L13).

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::VmState;
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Confirm, Context, Place, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Moot, Step, Table, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{drop_claim, drop_source_allocation};
use crate::saga::steps::records::{delete_hidden_records, pay_hidden_records};
use crate::saga::world::World;

/// The operation.
pub const OPERATION: Operation = Operation::new("confirm", &[("confirm", TABLE)], |_| TABLE);

/// The saga.
pub const TABLE: Table = Table::of(STEPS);

const STEPS: &[Step] = &[
    ACCEPT,
    Step::forward(StepName::BeginConfirm, work!(begin_confirm)),
    CLEAN_SOURCE_HOST,
    RELEASE_SOURCE_PORTS,
    RELEASE_SOURCE_VOLUMES,
    DROP_SOURCE_ALLOCATION,
    DELETE_SOURCE_RECORDS,
    // Last, so that a user who sees ACTIVE finds no leftovers of the source.
    Step::forward(StepName::FinishConfirm, work!(finish_confirm)),
];

/// Removes the kept disks and gives back the room on the source host.
pub const CLEAN_SOURCE_HOST: Step =
    Step::cleanup(StepName::CleanSourceHost, work!(clean_source_host)).moot_when(Moot::InUseAgain(At::Source)).idle(left_nothing);
/// Removes the source's port bindings.
pub const RELEASE_SOURCE_PORTS: Step =
    Step::cleanup(StepName::ReleaseSourcePorts, work!(release_source_ports)).moot_when(Moot::InUseAgain(At::Source)).idle(left_no_ports);
/// Removes the empty attachments that held the volumes for a revert.
pub const RELEASE_SOURCE_VOLUMES: Step =
    Step::cleanup(StepName::ReleaseSourceVolumes, work!(release_source_volumes)).idle(idle::without_volumes);
/// Gives up the migration's allocation, whatever happened to the host.
pub const DROP_SOURCE_ALLOCATION: Step = Step::forward(StepName::DropSourceAllocation, work!(drop_source_allocation));
/// Removes the hidden records in the source cell.
pub const DELETE_SOURCE_RECORDS: Step =
    Step::cleanup(StepName::DeleteSourceRecords, work!(delete_source_records)).paid_by(work!(pay_source_records)).idle(stays_in_its_cell);

async fn begin_confirm(world: &World, context: &mut Confirm, fence: Fence) -> Result<(), StepError> {
    let here = context.target()?.clone();
    let txn = history::event_started(CellTxn::new(), context, source_event(context), context.source.as_ref());
    history::apply_and_notify(world, context, fence, txn, (StepName::BeginConfirm, InstanceAction::ResizeConfirm, Phase::Start), &here)
        .await
}

fn source_event(context: &ServerFacts) -> &'static str {
    if context.crosses_cells() { "compute_confirm_snapshot_based_resize_at_source" } else { "compute_confirm_resize" }
}

/// Returns the source of the move that ends; none if a server that was not resized is deleted.
fn left_behind(context: &ServerFacts) -> Option<Place> {
    context.target.as_ref().and(context.source.clone())
}

fn left_nothing(context: &Context) -> bool {
    left_behind(context).is_none()
}

fn left_no_ports(context: &Context) -> bool {
    left_nothing(context) || context.ports.is_empty()
}

fn stays_in_its_cell(context: &Context) -> bool {
    !context.crosses_cells()
}

async fn clean_source_host(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(source) = left_behind(context) else { return Ok(()) };
    world.ask(context, &source, fence, HostCommand::RemoveGuest).await?;
    drop_claim(world, context, fence, &source).await
}

async fn release_source_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(source) = left_behind(context) else { return Ok(()) };
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &source.host).await?;
    }
    Ok(())
}

async fn release_source_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.placeholder).await?;
    }
    Ok(())
}

async fn delete_source_records(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    if !context.crosses_cells() {
        return Ok(());
    }
    delete_hidden_records(world, context, fence, &context.source()?.cell).await
}

async fn pay_source_records(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    if !context.crosses_cells() {
        return Ok(());
    }
    pay_hidden_records(world, context, fence, &context.source()?.cell).await
}

async fn finish_confirm(world: &World, context: &mut Confirm, fence: Fence) -> Result<(), StepError> {
    let here = context.target()?.clone();
    let vm_state = if context.ran_before() { VmState::Active } else { VmState::Stopped };
    let mut txn = CellTxn::new()
        .instance_change(context.server, InstanceChange::states(vm_state, None))
        .clear_move_fields(context.server)
        .migration_status(context.move_id(), MigrationStatus::Confirmed);
    txn = history::event_done(txn, context, source_event(context), context.source.as_ref());
    txn = history::succeeded(txn, context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishConfirm, InstanceAction::ResizeConfirm, Phase::End), &here).await
}
