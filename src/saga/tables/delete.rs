//! Delete: forward-only. A server that waits for confirm is confirmed on the way: the source goes first.

use std::collections::BTreeMap;

use super::confirm::{CLEAN_SOURCE_HOST, DELETE_SOURCE_RECORDS, DROP_SOURCE_ALLOCATION, RELEASE_SOURCE_PORTS, RELEASE_SOURCE_VOLUMES};
use super::soft_delete;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::saga::accept::{ACCEPT, find};
use crate::saga::context::{Context, Delete, Part};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::idle;
use crate::saga::operation::{Operation, Tables};
use crate::saga::refusal::Refusal;
use crate::saga::step::{Step, Table, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::drop_claim;
use crate::saga::steps::ownership::disown;
use crate::saga::steps::records::ignore_missing;
use crate::saga::steps::shelf;
use crate::saga::world::World;
use crate::services::placement::Allocations;

/// The operation, a soft delete too.
pub const OPERATION: Operation =
    Operation::new("delete", &[("delete", TABLE), ("soft_delete", soft_delete::TABLE)], deletes_as_the_request_says).after(&[
        Tables::of_version(1, |_| TABLE_1),
        // Deletes a shelved server's image, too. The present version knows the soft delete.
        Tables::of_version(2, |_| TABLE),
    ]);

fn deletes_as_the_request_says(context: &Context) -> Table {
    match context {
        Context::Delete(delete) if delete.deferred => soft_delete::TABLE,
        _ => TABLE,
    }
}

/// The saga.
pub const TABLE: Table = Table::of(STEPS);
/// The saga of releases that shelved no server.
pub const TABLE_1: Table = Table::of(STEPS_1);

const STEPS: &[Step] = &[
    ACCEPT,
    BEGIN_DELETE,
    CLEAN_SOURCE_HOST,
    RELEASE_SOURCE_PORTS,
    RELEASE_SOURCE_VOLUMES,
    DROP_SOURCE_ALLOCATION,
    DELETE_SOURCE_RECORDS,
    REMOVE_GUEST,
    RELEASE_PORTS,
    RELEASE_VOLUMES,
    DELETE_SHELVED_IMAGE,
    DROP_ALLOCATION,
    DISOWN,
    DELETE_RECORD,
];

const STEPS_1: &[Step] = &[
    ACCEPT,
    BEGIN_DELETE,
    CLEAN_SOURCE_HOST,
    RELEASE_SOURCE_PORTS,
    RELEASE_SOURCE_VOLUMES,
    DROP_SOURCE_ALLOCATION,
    DELETE_SOURCE_RECORDS,
    REMOVE_GUEST,
    RELEASE_PORTS,
    RELEASE_VOLUMES,
    DROP_ALLOCATION,
    DISOWN,
    DELETE_RECORD,
];

const BEGIN_DELETE: Step = Step::forward(StepName::BeginDelete, work!(begin_delete));
const REMOVE_GUEST: Step = Step::cleanup(StepName::RemoveGuest, work!(remove_guest));
const RELEASE_PORTS: Step = Step::cleanup(StepName::ReleasePorts, work!(release_ports)).idle(idle::without_ports);
const RELEASE_VOLUMES: Step = Step::cleanup(StepName::ReleaseVolumes, work!(release_volumes));
/// Deletes the image of a shelved server.
pub const DELETE_SHELVED_IMAGE: Step = Step::cleanup(StepName::DeleteShelvedImage, work!(delete_shelved_image)).idle(has_no_shelved_image);
const DROP_ALLOCATION: Step = Step::forward(StepName::DropAllocation, work!(drop_allocation));
/// No host may run the guest any more: a host that comes back with it asks, and is refused.
const DISOWN: Step = Step::forward(StepName::Disown, work!(disown));
const DELETE_RECORD: Step = Step::forward(StepName::DeleteRecord, work!(delete_record));

async fn begin_delete(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    // From here on the delete cannot be undone: if the cell goes down, users see no server.
    ignore_missing(world.api.set_queued_for_delete(context.server, true).await)?;
    let Some(here) = context.here().cloned() else { return Ok(()) };
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::BeginDelete, InstanceAction::Delete, Phase::Start), &here)
        .await
}

async fn remove_guest(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    let Some(here) = context.here().cloned() else { return Ok(()) };
    world.ask(context, &here, fence, HostCommand::RemoveGuest).await?;
    drop_claim(world, context, fence, &here).await
}

async fn release_ports(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    for port in &context.ports {
        if port.made_for_server {
            world.network.delete_port(fence, port.port_id).await?;
        } else {
            world.network.release_port(fence, port.port_id).await?;
        }
    }
    Ok(())
}

async fn release_volumes(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    for attachment in world.volumes.attachments_of(context.server).await? {
        world.volumes.delete_attachment(fence, attachment.id).await?;
    }
    for volume in &context.volumes_to_delete {
        world.volumes.delete_volume(fence, *volume).await?;
    }
    Ok(())
}

fn has_no_shelved_image(context: &Context) -> bool {
    matches!(context, Context::Delete(delete) if delete.shelved_image.is_none())
}

async fn delete_shelved_image(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    shelf::delete_image(world, context, fence, context.shelved_image).await
}

async fn drop_allocation(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    let Some(held) = world.placement.allocations_of(context.server).await? else { return Ok(()) };
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none]).await?)
}

async fn delete_record(world: &World, context: &mut Delete, fence: Fence) -> Result<(), StepError> {
    let cell = match find(world, context.server).await {
        Ok((cell, _)) => cell,
        Err(Refusal::NotFound(_)) => return settle(world, context).await,
        Err(other) => return Err(other.into()),
    };
    if let Some(here) = context.here().cloned() {
        history::notify(world, context, StepName::DeleteRecord, InstanceAction::Delete, Phase::End, &here).await;
    }
    let mut txn = history::succeeded(CellTxn::new(), context);
    if context.target.is_some() {
        txn = txn.migration_status(context.move_id(), MigrationStatus::Confirmed);
    }
    world.cell(&cell)?.apply(fence, txn.soft_delete_instance(context.server, world.env.now())).await?;
    // Last: until the record is gone, the queued delete keeps the server from being shown again.
    settle(world, context).await
}

/// Clears the queued delete after its notification: a crash between the two repeats the notification.
async fn settle(world: &World, context: &Delete) -> Result<(), StepError> {
    let queued = match world.api.instance_mapping(context.server).await {
        Err(DbError::NotFound(_)) => None,
        mapping => mapping?.delete_request,
    };
    if let Some(request) = queued {
        history::queued_delete(world, context.saga, context.server, &request, None).await;
    }
    Ok(world.api.settle_delete(context.server).await?)
}
