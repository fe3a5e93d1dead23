//! Attach and detach of a network interface, while the guest may run. A port that was made for the server is deleted when it leaves; a port
//! that was given is as it was before.

use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::GuestVif;
use crate::domain::host_protocol::HostCommand;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::saga::accept::ACCEPT;
use crate::saga::claim::{Claimed, GiveUp};
use crate::saga::context::{AttachInterface, DetachInterface, HealPlan, PortLink};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Moot, Step, Table, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::heal_plan::{PlacedServer, joining, leaving, left_behind};
use crate::saga::steps::port_shares::{hold, hold_as_before, refuse_policy_of_network, too_old};
use crate::saga::steps::ports::vif_of;
use crate::saga::world::World;
use crate::services::ServiceError;
use crate::services::network::{HostKey, NewPort, Port};

/// Attach.
pub const ATTACH: Operation = Operation::new("attach_interface", &[("attach_interface", ATTACH_TABLE)], |_| ATTACH_TABLE);

const ATTACH_TABLE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::TakePort, work!(take_port), Undo::By(work!(give_port_up))).moot_when(Moot::AttachedAnew),
    Step::claiming(StepName::ClaimShares, claims!(claim_shares), GiveUp::By(work!(return_shares))).before_the_next_move(),
    Step::reversible(StepName::NameProviders, work!(name_providers), Undo::Nothing("the binding goes with the port")),
    Step::reversible(StepName::PlugInterface, work!(plug_interface), Undo::By(work!(unplug_again))).moot_when(Moot::AttachedAnew),
    Step::forward(StepName::RecordInterface, work!(record_interface)),
]);

/// Detach.
pub const DETACH: Operation = Operation::new("detach_interface", &[("detach_interface", DETACH_TABLE)], |_| DETACH_TABLE);

const DETACH_TABLE: Table = Table::of(&[
    ACCEPT,
    // Before the port goes, because its request tells what it holds.
    Step::reversible(StepName::PlanShares, work!(plan_release), Undo::Nothing("it only looks")),
    Step::reversible(StepName::UnplugInterface, work!(unplug_interface), Undo::By(work!(plug_again)))
        .paid_by(work!(pay_plug))
        .moot_when(Moot::LostOwnership(At::Source))
        .tried(4),
    Step::forward(StepName::GivePortBack, work!(give_port_back)),
    Step::forward(StepName::DropShares, work!(drop_shares)),
    Step::forward(StepName::ForgetInterface, work!(forget_interface)),
]);

/// Makes the port or gives it to the server, binds it to the host, and plans what it gets of the host's network.
async fn take_port(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let event = (StepName::TakePort, InstanceAction::InterfaceAttach, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &here).await?;
    let request = context.request.clone();
    let port = match request.network_id {
        Some(network_id) => {
            let new = NewPort {
                id: request.port_id,
                network_id,
                project_id: context.project_id.clone(),
                fixed_ip: request.fixed_ip.clone(),
                security_groups: request.security_groups.clone(),
            };
            refuse_policy_of_network(context, world.network.create_port(fence, new).await?)?
        }
        None => {
            check_host(world, context, request.port_id).await?;
            world.network.claim_port(fence, request.port_id).await?
        }
    };
    world.network.create_binding(fence, port.id, &here.host, HostKey::AllocationIs(None)).await?;
    context.plan = plan_join(world, context, &port).await?;
    context.vif = Some(vif_of(&port, &request));
    Ok(())
}

/// Refuses a port that asks for resources of a host whose service is too old for it, before the port is written.
async fn check_host(world: &World, context: &AttachInterface, port: Uuid) -> Result<(), StepError> {
    if world.network.port(port).await?.resource_request.is_none() {
        return Ok(());
    }
    match too_old(world, context.source()?).await? {
        Some(why) => Err(no_room(context, &why)),
        None => Ok(()),
    }
}

fn no_room(context: &AttachInterface, why: &Reason) -> StepError {
    StepError::Refused(reason!("Failed to allocate additional resources to {} during interface attach: {why}", context.server))
}

/// Undo: deletes a port that was made, and gives back a port that was given.
async fn give_port_up(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let made = context.request.network_id.is_some();
    give_up(world, fence, &PortLink { port_id: context.request.port_id, mac: String::new(), made_for_server: made }).await
}

async fn give_up(world: &World, fence: Fence, port: &PortLink) -> Result<(), StepError> {
    match port.made_for_server {
        true => Ok(world.network.delete_port(fence, port.port_id).await?),
        false => Ok(world.network.release_port(fence, port.port_id).await?),
    }
}

/// Plans what a port that asks for resources gets; none for a port that asks for nothing.
async fn plan_join(world: &World, facts: &AttachInterface, port: &Port) -> Result<Option<HealPlan>, StepError> {
    if port.resource_request.is_none() {
        return Ok(None);
    }
    let here = facts.source()?;
    let held = world.placement.allocations_of(facts.server).await?;
    let held = held.ok_or_else(|| StepError::Refused(reason!("Instance {} has no allocation to add to", facts.server)))?;
    let tree = world.placement.trees(Some(vec![here.provider])).await?;
    let server = PlacedServer { host: &here.host, node: here.provider, ports: &[], held: &held.allocations, isolate: false, own: None };
    joining(&server, port, tree).map(Some).map_err(|why| no_room(facts, &Reason::public(why)))
}

async fn claim_shares(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<Claimed, StepError> {
    if let Some(plan) = context.plan.clone() {
        hold(world, context, fence, plan.after).await?;
    }
    Ok(Claimed::made())
}

/// Undo: the server holds what it held.
async fn return_shares(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    hold_as_before(world, context, fence, context.plan.as_ref()).await
}

async fn name_providers(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let host = context.source()?.host.clone();
    for (port, (_, after)) in context.plan.iter().flat_map(|plan| &plan.keys) {
        world.network.create_binding(fence, *port, &host, HostKey::AllocationIs(after.clone())).await?;
    }
    Ok(())
}

async fn plug_interface(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let interface = context.vif.as_ref().ok_or_else(|| StepError::Refused("the server has not taken the port".into()))?;
    let vif = GuestVif { port_id: interface.port_id, mac: interface.mac_address.clone() };
    world.ask(context, &here, fence, HostCommand::AttachVif { vif }).await.map(drop)
}

/// Undo of an attach.
async fn unplug_again(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::DetachVif { port_id: context.request.port_id }).await.map(drop)
}

async fn record_interface(world: &World, context: &mut AttachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let vif = context.vif.clone().ok_or_else(|| StepError::Refused("the server has not taken the port".into()))?;
    let txn = history::succeeded(CellTxn::new().add_interface(context.server, vif), context);
    let event = (StepName::RecordInterface, InstanceAction::InterfaceAttach, Phase::End);
    history::apply_and_notify(world, context, fence, txn, event, &here).await
}

fn leaving_port(context: &DetachInterface) -> Result<PortLink, StepError> {
    let port = context.request.port_id;
    let link = context.ports.iter().find(|link| link.port_id == port).cloned();
    link.ok_or_else(|| StepError::Refused(reason!("Port id {port} is not attached")))
}

/// Looks what the server holds without the port.
async fn plan_release(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let port = leaving_port(context)?.port_id;
    let event = (StepName::PlanShares, InstanceAction::InterfaceDetach, Phase::Start);
    history::apply_and_notify(world, context, fence, CellTxn::new(), event, &here).await?;
    let port = match world.network.port(port).await {
        Ok(port) => Some(port).filter(|port| port.server == Some(context.server)),
        Err(ServiceError::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(held) = world.placement.allocations_of(context.server).await? else { return Ok(()) };
    let others = if port.is_none() { world.network.ports_of(context.server).await? } else { Vec::new() };
    let server = PlacedServer { host: &here.host, node: here.provider, ports: &others, held: &held.allocations, isolate: false, own: None };
    let plan = port.map_or_else(|| left_behind(&server), |port| leaving(&server, &port));
    context.plan = Some(plan.map_err(|why| StepError::Refused(Reason::public(why)))?).filter(HealPlan::changes);
    Ok(())
}

async fn unplug_interface(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::DetachVif { port_id: context.request.port_id }).await.map(drop)
}

/// Payment of [`plug_again`]. A later operation may have detached the port since; then it stays out.
async fn pay_plug(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    match debt::has_interface(world, context, leaving_port(context)?.port_id).await? {
        true => plug_again(world, context, fence).await,
        false => Ok(()),
    }
}

/// Undo of a detach.
async fn plug_again(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let link = leaving_port(context)?;
    let vif = GuestVif { port_id: link.port_id, mac: link.mac };
    world.ask(context, &here, fence, HostCommand::AttachVif { vif }).await.map(drop)
}

async fn give_port_back(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    give_up(world, fence, &leaving_port(context)?).await
}

async fn drop_shares(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    match context.plan.clone() {
        Some(plan) => hold(world, context, fence, plan.after).await,
        None => Ok(()),
    }
}

async fn forget_interface(world: &World, context: &mut DetachInterface, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let txn = CellTxn::new().forget_interface(context.server, context.request.port_id);
    let event = (StepName::ForgetInterface, InstanceAction::InterfaceDetach, Phase::End);
    history::apply_and_notify(world, context, fence, history::succeeded(txn, context), event, &here).await
}
