//! Soft delete and restore, for clouds with a `reclaim_instance_interval`: the guest is stopped and all else stays, until the user restores
//! the server or the interval ends and the server is deleted. A server that waits for confirm is confirmed on the way, as by a delete.

use super::confirm::{CLEAN_SOURCE_HOST, DELETE_SOURCE_RECORDS, DROP_SOURCE_ALLOCATION, RELEASE_SOURCE_PORTS, RELEASE_SOURCE_VOLUMES};
use super::delete::DELETE_SHELVED_IMAGE;
use super::power::{BACK, BEGIN, start_guest};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Delete, Part, Place, Power};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{Deadline, Moot, Step, Table, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::records::ignore_missing;
use crate::saga::steps::shelf;
use crate::saga::world::World;

/// Soft delete: forward-only, like a delete.
pub const TABLE: Table = Table::of(&[
    ACCEPT,
    Step::forward(StepName::BeginDelete, work!(begin_soft_delete)),
    CLEAN_SOURCE_HOST,
    RELEASE_SOURCE_PORTS,
    RELEASE_SOURCE_VOLUMES,
    DROP_SOURCE_ALLOCATION,
    DELETE_SOURCE_RECORDS,
    Step::cleanup(StepName::StopGuest, work!(stop_guest)).moot_when(Moot::NotSoftDeleted).within(Deadline::Within(180)),
    // A restored server runs from its disk.
    DELETE_SHELVED_IMAGE,
    Step::forward(StepName::RecordSoftDeleted, work!(record_soft_deleted)),
]);

/// Restore.
pub const RESTORE: Operation = Operation::new("restore", &[("restore", RESTORE_TABLE)], |_| RESTORE_TABLE);

const RESTORE_TABLE: Table = Table::of(&[
    ACCEPT,
    BEGIN,
    Step::reversible(StepName::StartGuest, work!(start_guest), BACK).moot_when(Moot::NotSoftDeleted).within(Deadline::Within(300)).tried(4),
    Step::forward(StepName::RecordRunning, work!(record_restored)),
]);

fn place(context: &Delete) -> Result<Place, StepError> {
    context.here().cloned().ok_or_else(|| StepError::Refused("the server is on no host".into()))
}

async fn begin_soft_delete(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    ignore_missing(world.api.set_queued_for_delete(context.server, true).await)?;
    let event = (StepName::BeginDelete, InstanceAction::SoftDelete, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &place(context)?).await
}

async fn stop_guest(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &place(context)?, fence, stop).await.map(drop)
}

async fn record_soft_deleted(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    let here = place(context)?;
    let metadata = world.cell(&here.cell)?.instance(context.server).await?.system_metadata;
    let change = InstanceChange {
        power_state: Some(PowerState::Shutdown),
        system_metadata: Some(shelf::unshelved(metadata)),
        deleted_at: Some(Some(world.env.now())),
        ..InstanceChange::states(VmState::SoftDeleted, None)
    };
    let mut txn = CellTxn::new().instance_change(context.server, change).clear_move_fields(context.server);
    if context.target.is_some() {
        txn = txn.migration_status(context.move_id(), MigrationStatus::Confirmed);
    }
    txn = history::succeeded(txn, context);
    let event = (StepName::RecordSoftDeleted, InstanceAction::SoftDelete, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await?;
    // Last, as for a delete: until then the queued delete keeps the server from being shown as it was.
    let queued = world.api.instance_mapping(context.server).await?.delete_request;
    if let Some(request) = queued.filter(|request| request.deferred) {
        history::queued_delete(world, context.saga, context.server, &request, None).await;
    }
    Ok(world.api.settle_soft_delete(context.server).await?)
}

async fn record_restored(world: &World, context: &mut Power, fence: Fence) -> Result<(), StepError> {
    let change =
        InstanceChange { power_state: Some(PowerState::Running), deleted_at: Some(None), ..InstanceChange::states(VmState::Active, None) };
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, change), context);
    let event = (StepName::RecordRunning, InstanceAction::Restore, Phase::End);
    let here = context.source()?.clone();
    history::apply_and_notify(world, context, fence, txn, event, &here).await?;
    // From here on the server counts against its project's quota.
    ignore_missing(world.api.set_queued_for_delete(context.server, false).await)
}
