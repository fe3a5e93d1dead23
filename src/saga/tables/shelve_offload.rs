//! The offload of a shelved server: it leaves its host, which need not answer. The pivot says that no host may run the guest; what the host
//! keeps is removed when it can be. Ports and volumes stay the server's, without a host.

use std::collections::BTreeMap;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::context::{Context, OFFLOAD_EVENT, ServerFacts, ShelveOffload};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Moot, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::drop_claim;
use crate::saga::steps::ownership::{disown, hand_back_ownership};
use crate::saga::steps::volumes::attachments;
use crate::saga::world::World;
use crate::services::placement::Allocations;

/// The operation.
pub const OPERATION: Operation = Operation::new("shelve_offload", &[("shelve_offload", TABLE)], |_| TABLE);

/// The saga.
pub const TABLE: Table = Table {
    steps: &[ACCEPT, BEGIN, DISOWN, REMOVE_GUEST, RELEASE_SOURCE_PORTS, HOLD_VOLUMES, DROP_ALLOCATION, RECORD_OFFLOADED],
    chooses: None,
};

const BEGIN: Step = Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells"));

/// The pivot: the guest is off by its host's word, and no host may run it any more.
pub const DISOWN: Step = Step::pivot(StepName::Disown, work!(disown), Undo::By(work!(hand_back_ownership)));
/// Removes the guest with its disks, and gives the room on the host back.
pub const REMOVE_GUEST: Step = Step::cleanup(StepName::RemoveGuest, work!(remove_guest)).moot_when(Moot::InUseAgain(At::Source));
/// Removes the bindings to the host.
pub const RELEASE_SOURCE_PORTS: Step =
    Step::cleanup(StepName::ReleaseSourcePorts, work!(release_source_ports)).moot_when(Moot::InUseAgain(At::Source));
/// Holds each volume by an empty attachment.
pub const HOLD_VOLUMES: Step = Step::forward(StepName::HoldVolumes, work!(hold_volumes)).idle(idle::without_volumes);
/// Before the record says so: whoever sees SHELVED_OFFLOADED finds the room free.
pub const DROP_ALLOCATION: Step = Step::forward(StepName::DropAllocation, work!(drop_allocation));
/// Clears the host and writes the state in one commit.
pub const RECORD_OFFLOADED: Step = Step::forward(StepName::RecordOffloaded, work!(record_offloaded));

async fn begin(world: &World, context: &mut ShelveOffload, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let event = (StepName::Begin, InstanceAction::ShelveOffload, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &here).await
}

async fn remove_guest(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::RemoveGuest).await?;
    drop_claim(world, context, fence, &here).await
}

async fn release_source_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let host = context.source()?.host.clone();
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &host).await?;
    }
    Ok(())
}

async fn hold_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.placeholder, volume.volume_id, None, mount).await?;
        world.volumes.delete_attachment(fence, volume.source_attachment).await?;
    }
    Ok(())
}

async fn drop_allocation(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(held) = world.placement.allocations_of(context.server).await? else { return Ok(()) };
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none]).await?)
}

async fn record_offloaded(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let change = InstanceChange {
        host: Some(None),
        node: Some(None),
        availability_zone: Some(None),
        power_state: Some(PowerState::Shutdown),
        ..InstanceChange::states(VmState::ShelvedOffloaded, None)
    };
    let mut txn = CellTxn::new().instance_change(context.server, change);
    txn = attachments(world, context, &here.cell, txn, |volume| volume.placeholder).await?;
    txn = history::event_done(txn, context.part(), OFFLOAD_EVENT, Some(&here));
    txn = history::succeeded(txn, context.part());
    let event = (StepName::RecordOffloaded, InstanceAction::ShelveOffload, Phase::End);
    history::apply_and_notify(world, context.part(), fence, txn, event, &here).await
}
