//! Moves of whole server groups: each round takes the next step of each open move. All that is known stands in its record, and operations
//! have ids that follow from it, so that any controller can go on after a crash and two at once begin nothing twice.

use std::collections::{BTreeMap, BTreeSet};

use cellshift_scheduler::port_providers::PortProviders;
use uuid::Uuid;

use super::PeriodicParts;
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::group_move::{Act, GroupMove, GroupMoveState, HostOfCell, MemberMove, Seen};
use crate::domain::instance::Instance;
use crate::domain::port_request::{Grant, PortRequest};
use crate::domain::reason;
use crate::domain::server::{PowerState, VmState};
use crate::saga::accept;
use crate::saga::context::{ConfirmRequest, Context, LiveMigrateRequest, Request, ResizeRequest};
use crate::saga::refusal::Refusal;
use crate::saga::steps::port_shares::requests_of;
use crate::saga::world::{CELL0, World};
use crate::services::ServiceError;
use crate::services::placement::Allocations;
use crate::services::placement::tree::Tree;

/// Takes the next step of each open move.
pub async fn advance_all(parts: &PeriodicParts) {
    let open = match parts.world.api.open_group_moves().await {
        Ok(open) => open,
        Err(error) => return log::warn!("moves of server groups wait: {error}"),
    };
    for moving in open {
        let (id, group) = (moving.id, moving.group);
        if let Err(error) = advance(parts, moving).await {
            log::warn!(group:% = group; "the move {id} of a server group waits: {error}");
        }
    }
}

async fn advance(parts: &PeriodicParts, mut moving: GroupMove) -> Result<(), Refusal> {
    let (world, before) = (&*parts.world, moving.clone());
    if let (GroupMoveState::Reserving, Some(stop)) = (moving.state, &moving.stop) {
        (moving.state, moving.reason) = (GroupMoveState::Returned, Some(stop.error()));
        return save(world, before, moving).await;
    }
    if moving.state == GroupMoveState::Reserving {
        match reserve(world, &moving).await {
            Ok(()) => moving.state = GroupMoveState::Moving,
            Err(ServiceError::Conflict(why)) => {
                (moving.state, moving.reason) = (GroupMoveState::Refused, Some(reason!("no room for all members: {why}").stored()));
            }
            Err(error) => return Err(error.into()),
        }
        return save(world, before, moving).await;
    }
    let (seen, records) = look(world, &mut moving).await?;
    let failures = failures(parts, &moving).await?;
    for (server, act) in moving.advance(&seen, &failures) {
        if let Some(instance) = records.get(&server) {
            perform(parts, &mut moving, server, act, instance).await?;
        }
    }
    for (operation, stop) in moving.to_cancel(&seen) {
        // An operation past its pivot goes on, and its server is brought back.
        world.operations.cancel(operation, stop).await?;
    }
    save(world, before, moving).await
}

/// Saves what changed. A move that ends gives back the room that nobody has claimed.
async fn save(world: &World, before: GroupMove, moving: GroupMove) -> Result<(), Refusal> {
    if moving == before {
        return Ok(());
    }
    if !moving.state.is_open() {
        for member in &moving.members {
            release(world, &moving, member).await?;
        }
        log::info!(group:% = moving.group; "the move of the server group to {} ends: {}", moving.target.host, moving.state);
    }
    world.api.save_group_move(moving).await?;
    Ok(())
}

/// Returns the members as they are. Members that joined since the move began take part in it.
async fn look(world: &World, moving: &mut GroupMove) -> Result<(BTreeMap<Uuid, Seen>, BTreeMap<Uuid, (String, Instance)>), Refusal> {
    let mut members: Vec<Uuid> = moving.members.iter().map(|member| member.server).collect();
    match world.api.server_group(moving.group).await {
        Ok(group) => {
            members.extend(group.members.into_iter().filter(|joined| moving.members.iter().all(|member| member.server != *joined)))
        }
        // The group is gone, and its members go on.
        Err(DbError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let (mut seen, mut records) = (BTreeMap::new(), BTreeMap::new());
    for server in members {
        // The holder is read first: who is let go afterwards is seen as busy, and looked at again.
        let held = world.operations.holder(server).await?.is_some();
        match accept::find(world, server).await {
            _ if held => drop(seen.insert(server, Seen::Busy)),
            Ok((cell, instance)) => {
                let host = instance.host.clone().filter(|_| cell != CELL0);
                let place = host.clone().map(|host| HostOfCell { cell: cell.clone(), host });
                let at = host.map_or(Seen::Nowhere, |host| Seen::At { host, vm_state: instance.vm_state });
                if let Some(place) = place.filter(|_| moving.members.iter().all(|member| member.server != server)) {
                    let origin = moving.members.first().map_or(place, |first| first.origin.clone());
                    moving.members.push(MemberMove::new(server, origin));
                }
                seen.insert(server, at);
                records.insert(server, (cell, instance));
            }
            Err(Refusal::NotFound(_)) => drop(seen.insert(server, Seen::Nowhere)),
            Err(error) => return Err(error),
        }
    }
    Ok((seen, records))
}

/// Returns the reasons of the move's operations that failed.
async fn failures(parts: &PeriodicParts, moving: &GroupMove) -> Result<BTreeMap<Uuid, String>, Refusal> {
    let mut failures = BTreeMap::new();
    for operation in moving.members.iter().filter_map(|member| member.there) {
        if let Some(why) = parts.conductor.failure(operation).await? {
            failures.insert(operation, why.to_string());
        }
    }
    Ok(failures)
}

async fn perform(
    parts: &PeriodicParts,
    moving: &mut GroupMove,
    server: Uuid,
    act: Act,
    (cell, instance): &(String, Instance),
) -> Result<(), Refusal> {
    let (id, caller, target) = (moving.id, moving.caller.clone(), moving.target.clone());
    let Some(place) = moving.members.iter().position(|member| member.server == server) else { return Ok(()) };
    if act == Act::ToTarget {
        release(&parts.world, moving, &moving.members[place]).await?;
    }
    let member = &mut moving.members[place];
    let request = match act {
        Act::ToTarget => travel(instance, cell, &target),
        Act::ToOrigin => travel(instance, cell, &member.origin),
        Act::Confirm => Request::Confirm(ConfirmRequest { automatic: true, migration: member.there }),
        Act::Revert => Request::Revert,
    };
    let purpose = format!("{act:?} {server} {}", member.refusals);
    let operation = Uuid::new_v5(&id, purpose.as_bytes());
    let caller = RequestContext { request_id: format!("req-{}", parts.world.env.uuid()), ..caller };
    match parts.conductor.begin(Context::new(operation, caller, server, request)).await {
        Ok(_) => {
            member.refusals = 0;
            match act {
                Act::ToTarget => member.there = Some(operation),
                Act::ToOrigin | Act::Revert => member.back = Some(operation),
                Act::Confirm => {}
            }
        }
        Err(refusal) if refusal.is_definite() => {
            member.refusals += 1;
            moving.reason = Some(reason!("{refusal}").stored());
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(())
}

/// Returns the request that brings a server to a host: alive if it runs and stays in its cell.
fn travel(instance: &Instance, cell: &str, to: &HostOfCell) -> Request {
    let host = Some(to.host.clone());
    if travels_alive(instance, cell, to) {
        return Request::LiveMigrate(LiveMigrateRequest { host, block_migration: None, forced: false, unchecked: false });
    }
    let (flavor, cross_cell_allowed) = (Box::new(instance.flavor.clone()), to.cell != cell);
    Request::Resize(Box::new(ResizeRequest { flavor, migrate: true, host, cross_cell_allowed }))
}

/// True if a member goes by live migration.
pub fn travels_alive(instance: &Instance, cell: &str, to: &HostOfCell) -> bool {
    cell == to.cell && instance.vm_state == VmState::Active && instance.power_state == PowerState::Running
}

/// Has consumers of the move's own hold the room for all members at the target, together or not at all.
async fn reserve(world: &World, moving: &GroupMove) -> Result<(), ServiceError> {
    let tree = Tree::of(world.placement.trees(None).await?);
    let provider = tree.providers.iter().find(|provider| provider.name == moving.target.host);
    let provider = provider.ok_or_else(|| ServiceError::Conflict(reason!("{} has no resource provider", moving.target.host)))?.uuid;
    let (mut leaving, mut port_requests) = (Vec::new(), Vec::new());
    for member in &moving.members {
        let Some(own) = world.placement.allocations_of(member.server).await? else { continue };
        if own.allocations.contains_key(&provider) {
            continue;
        }
        let requests = requests_of(world, member.server).await.map_err(|error| ServiceError::Conflict(reason!("{error}")))?;
        port_requests.extend(requests.iter().cloned());
        let amounts = own.allocations.iter().find(|(from, _)| tree.root(**from) == **from).map(|(_, amounts)| amounts.clone());
        leaving.push((member, own, amounts.unwrap_or_default(), requests));
    }
    let grants = match port_requests.is_empty() {
        true => Vec::new(),
        false => PortProviders::over(tree, &port_requests, false)
            .grants(provider)
            .map_err(|why| ServiceError::Conflict(reason!("{}: {why}", moving.target.host)))?,
    };
    let mut changes = Vec::new();
    for (member, own, amounts, requests) in leaving {
        let consumer = member.reservation(moving.id);
        let reservation = world.placement.allocations_of(consumer).await?;
        let allocations = room_of(provider, amounts, &requests, &grants);
        changes.push(Allocations {
            consumer,
            consumer_generation: reservation.and_then(|reservation| reservation.consumer_generation),
            consumer_type: "MIGRATION".into(),
            allocations,
            ..own
        });
    }
    world.placement.replace_allocations(fence(moving.id, 1), changes).await
}

/// Returns the amounts of one member at the target: its own, and what its ports get of the target's network.
fn room_of(
    provider: Uuid,
    amounts: BTreeMap<String, i64>,
    requests: &[PortRequest],
    grants: &[Grant],
) -> BTreeMap<Uuid, BTreeMap<String, i64>> {
    let mut room: BTreeMap<Uuid, BTreeMap<String, i64>> = [(provider, amounts)].into();
    let groups: BTreeSet<Uuid> = requests.iter().flat_map(|request| &request.groups).map(|group| group.id).collect();
    for grant in grants.iter().filter(|grant| groups.contains(&grant.group)) {
        for (class, amount) in &grant.resources {
            *room.entry(grant.provider).or_default().entry(class.clone()).or_default() += amount;
        }
    }
    room
}

/// Gives up the room that is reserved for a member, if it still is.
async fn release(world: &World, moving: &GroupMove, member: &MemberMove) -> Result<(), ServiceError> {
    match world.placement.allocations_of(member.reservation(moving.id)).await? {
        Some(held) => {
            let none = Allocations { allocations: BTreeMap::new(), ..held };
            world.placement.replace_allocations(fence(moving.id, 2), vec![none]).await
        }
        None => Ok(()),
    }
}

/// Reservations are made under the first fence of the move and given up under the second, so that none is made too late.
fn fence(moving: Uuid, attempt: i64) -> Fence {
    Fence { server: moving, epoch: 1, attempt }
}
