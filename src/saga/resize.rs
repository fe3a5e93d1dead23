//! Resize and cold migration: the steps that every move shares, until the scheduler's choice decides whether it stays in
//! its cell (`same_cell_resize`) or crosses (`cross_cell_resize`).

use std::collections::BTreeMap;

use super::context::{Context, Kind, Place, Request};
use super::error::StepError;
use super::guest_move::is_gone;
use super::history;
use super::scheduling::{
    OperationKind, RequestedDestination, SchedulingError, SelectDestinations, SourceHost, claim_candidate, release_claim,
};
use super::step_name::StepName;
use super::world::World;
use crate::db::cell::CellTxn;
use crate::db::cell::migrations::{Migration, MigrationChange};
use crate::domain::fence::Fence;
use crate::domain::inside;
use crate::domain::migration::{MigrationStatus, MigrationType};
use crate::domain::notification::{Event, InstanceAction, Phase};
use crate::domain::request_spec::RequestSpec;
use crate::env::guard::{Guard, stands};
use crate::services::ServiceError;
use crate::services::placement::Allocations;

/// The migration's record, `pre-migrating`, under the saga's own id.
pub async fn record_migration(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Request::Resize { flavor, migrate, .. } = &context.request else {
        return Err(StepError::Refused("not a resize".into()));
    };
    let (new, migrate) = ((**flavor).clone(), *migrate);
    let old = context.old_flavor.clone().unwrap_or_default();
    let source = context.source()?.clone();
    let (old_instance_type_id, new_instance_type_id) = futures::try_join!(flavor_number(world, &old.id), flavor_number(world, &new.id))?;
    let migration = Migration {
        id: 0,
        uuid: context.saga,
        instance_uuid: context.server,
        created_at: world.env.now(),
        updated_at: None,
        migration_type: if migrate { MigrationType::Migration } else { MigrationType::Resize },
        status: MigrationStatus::PreMigrating,
        source_compute: source.host.clone(),
        source_node: source.node.clone(),
        dest_compute: None,
        dest_node: None,
        dest_host: None,
        old_flavor_id: old.id.clone(),
        new_flavor_id: new.id.clone(),
        old_instance_type_id,
        new_instance_type_id,
        cross_cell_move: false,
        hidden: false,
        user_id: context.caller.user_id.clone(),
        project_id: context.caller.project_id.clone(),
        first_id: None,
    };
    world.cell(&source.cell)?.create_migration(fence, migration).await?;
    context.new_flavor = Some(new);
    Ok(())
}

/// A flavor's number in the API database; 0 for one that has been deleted since the server got it.
async fn flavor_number(world: &World, flavorid: &str) -> Result<i32, StepError> {
    match world.api.flavor(flavorid).await {
        Ok(record) => Ok(record.id),
        Err(crate::db::DbError::NotFound(_)) => Ok(0),
        Err(other) => Err(other.into()),
    }
}

/// Undo: the record stays and says that the move failed.
pub async fn fail_migration(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let cell = context.source()?.cell.clone();
    let db = world.cell(&cell)?;
    // The fence first: an act that comes late could record the migration after it was looked for.
    if stands(Guard::TombstoneOfMigration) {
        db.apply(fence, CellTxn::new()).await?;
    }
    ignore_missing(db.apply(fence, CellTxn::new().migration_status(context.saga, MigrationStatus::Error)).await)
}

/// The server's allocation moves to the migration as consumer, so that the scheduler can claim for the server.
pub async fn hold_source_allocation(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let held = world.placement.allocations_of(context.move_id()).await?;
    if held.is_some() {
        return Ok(());
    }
    let own = world.placement.allocations_of(context.server).await?;
    let Some(own) = own else {
        return Err(StepError::Refused(format!("Instance {} has no allocation to hold", context.server)));
    };
    let migration =
        Allocations { consumer: context.move_id(), consumer_generation: None, consumer_type: "MIGRATION".into(), ..own.clone() };
    let none = Allocations { allocations: BTreeMap::new(), ..own };
    Ok(world.placement.replace_allocations(fence, vec![none, migration]).await?)
}

/// Undo: what the migration holds is the server's again, and whatever the server held elsewhere is given up, at once.
pub async fn return_source_allocation(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    // The fence first: from here on an act that comes late changes nothing of what is read now.
    if stands(Guard::TombstoneOfClaim) {
        world.placement.replace_allocations(fence, Vec::new()).await?;
    }
    let Some(held) = world.placement.allocations_of(context.move_id()).await? else { return Ok(()) };
    if context.settling && super::debt::cell_of(world, context).await?.is_none() {
        // The server is gone: what was its is nobody's.
        let none = Allocations { allocations: BTreeMap::new(), ..held };
        return Ok(world.placement.replace_allocations(fence, vec![none]).await?);
    }
    let own = world.placement.allocations_of(context.server).await?;
    let server = Allocations {
        consumer: context.server,
        consumer_generation: own.and_then(|own| own.consumer_generation),
        consumer_type: "INSTANCE".into(),
        ..held.clone()
    };
    let none = Allocations { allocations: BTreeMap::new(), ..held };
    Ok(world.placement.replace_allocations(fence, vec![none, server]).await?)
}

/// The scheduler picks a host and claims it; after a refusal, the next alternate is claimed.
pub async fn select_destination(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let wanted = wanted_spec(context)?;
    if !context.refusals.is_empty() {
        return claim_next_alternate(world, context, fence, &wanted).await;
    }
    let Request::Resize { migrate, host, cross_cell_allowed, .. } = &context.request else {
        return Err(StepError::Refused("not a resize".into()));
    };
    let source = context.source()?.clone();
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::Start), &source).await;
    let selection = world
        .scheduling
        .select_destinations(SelectDestinations {
            resources: context.new_resources(),
            required_traits: Vec::new(),
            alternates: None,
            operation: if *migrate { OperationKind::Migrate } else { OperationKind::Resize },
            source: Some(SourceHost { cell: source.cell.clone(), host: source.host.clone() }),
            // A move on one host would need two guests of one server there; hosts do not offer that.
            ignore_hosts: vec![source.host.clone()],
            forced_host: None,
            requested_destination: Some(RequestedDestination::of_move(&source.cell, host.clone(), *cross_cell_allowed)),
            fence,
            consumer: context.server,
            claim: true,
            request_spec: wanted,
        })
        .await
        .map_err(scheduling_error)?;
    context.target = Some(Place::from(&selection.primary));
    context.alternates = selection.alternates;
    history::emit(world, context, StepName::SelectDestination, Event::SelectDestinations(Phase::End), &source).await;
    Ok(())
}

/// What the scheduler's error means for a step.
pub fn scheduling_error(error: SchedulingError) -> StepError {
    match error {
        SchedulingError::NoValidHost { reason } | SchedulingError::Invalid { reason } => StepError::Refused(reason),
        SchedulingError::Unavailable { .. } => StepError::Unknown(error.to_string()),
        SchedulingError::Stale { reason } => StepError::Overtaken(reason),
    }
}

/// INVARIANTS C8: alternates one after the other, and the prior state only after the last.
pub async fn claim_next_alternate(world: &World, context: &mut Context, fence: Fence, spec: &RequestSpec) -> Result<(), StepError> {
    while !context.alternates.is_empty() {
        let candidate = context.alternates.remove(0);
        match claim_candidate(world.placement.as_ref(), fence, context.server, &candidate, spec).await {
            Ok(()) => {
                context.target = Some(Place::from(&candidate));
                return Ok(());
            }
            Err(ServiceError::Conflict(why)) => context.refusals.push((candidate.host, why)),
            Err(other) => return Err(other.into()),
        }
    }
    let tried: Vec<String> = context.refusals.iter().map(|(host, why)| format!("{host}: {why}")).collect();
    let tried = inside::of(format!("Tried {}", tried.join("; ")));
    Err(StepError::Refused(format!("Exceeded max scheduling attempts for instance {}. {tried}", context.server)))
}

/// Undo: the claim is given up.
pub async fn release_destination(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let spec = wanted_spec(context)?;
    let moved = context.kind == Kind::Resize && context.settling;
    if moved && world.placement.allocations_of(context.move_id()).await?.is_none() {
        // The server has got back what it had before, in the place of the claim.
        return Ok(());
    }
    Ok(release_claim(world.placement.as_ref(), fence, context.server, &spec).await?)
}

/// The request spec with the flavor that is wanted.
pub fn wanted_spec(context: &Context) -> Result<RequestSpec, StepError> {
    let spec = context.request_spec.clone().ok_or_else(|| StepError::Refused("the server has no request spec".into()))?;
    let flavor = context.new_flavor.clone().unwrap_or_else(|| spec.flavor.clone());
    Ok(RequestSpec { flavor, ..spec })
}

/// An inactive binding per port on the target host.
pub async fn bind_ports_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    if context.crosses_cells() && !world.network.supports_extended_bindings().await? {
        return Err(precheck("the network service has no extension binding-extended (Port Bindings Extended)"));
    }
    let host = context.target()?.host.clone();
    for port in &context.ports {
        match is_gone(world.network.create_binding(fence, port.port_id, &host).await) {
            Ok(_) => {}
            Err(error @ (ServiceError::Unavailable { .. } | ServiceError::Stale(_))) => return Err(error.into()),
            Err(other) => {
                return Err(StepError::NextCandidate(format!(
                    "Migration pre-check error: Failed to create port bindings for host {host}: {other}"
                )));
            }
        }
    }
    Ok(())
}

/// Undo: the target's bindings are removed.
pub async fn unbind_ports_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &target.host).await?;
    }
    Ok(())
}

/// An empty attachment per volume, which holds it for the target.
pub async fn reserve_volumes_for_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.target_attachment, volume.volume_id, None, mount).await?;
    }
    Ok(())
}

/// Undo: the target's attachments are removed, and those that held the volumes in between; one that still does, until the source's
/// guest is defined again, is named by the record and stays.
pub async fn release_target_volumes(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.target_attachment).await?;
    }
    super::guest_move::drop_unnamed(world, context, fence, context.volumes.iter().map(|volume| volume.placeholder)).await
}

/// The target host takes room for the server, or says why it will not: then the next alternate is tried.
pub async fn claim_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let event = prep_event(context);
    let here = Place { cell: context.source()?.cell.clone(), ..target.clone() };
    let begun = history::event_started(CellTxn::new(), context, event, Some(&target));
    let told = (StepName::ClaimAtTarget, InstanceAction::ResizePrep, Phase::Start);
    history::apply_and_notify(world, context, fence, begun, told, &here).await?;
    if let Some(group) = context.request_spec.as_ref().and_then(|spec| spec.instance_group) {
        world.scheduling.check_group_policy(group, context.server, &target.host).await.map_err(|error| match error {
            SchedulingError::NoValidHost { reason } => StepError::NextCandidate(reason),
            other => scheduling_error(other),
        })?;
    }
    super::guest_move::claim(world, context, fence, &target).await.map_err(|error| match error {
        StepError::Refused(why) => {
            StepError::NextCandidate(format!("Migration pre-check error: Pre-checks failed on host {}: {why}", target.host))
        }
        StepError::Unknown(why) => {
            StepError::NextCandidate(format!("Migration pre-check error: host {} did not answer: {why}", target.host))
        }
        other => other,
    })?;
    let done = history::event_done(CellTxn::new(), context, event, Some(&target));
    history::apply_and_notify(world, context, fence, done, (StepName::ClaimAtTarget, InstanceAction::ResizePrep, Phase::End), &here).await
}

/// Undo: the room is given back.
pub async fn drop_claim_at_target(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    super::guest_move::drop_claim(world, context, fence, &target).await
}

/// The name of the target's first event.
fn prep_event(context: &Context) -> &'static str {
    if context.crosses_cells() { "compute_prep_snapshot_based_resize_at_dest" } else { "compute_prep_resize" }
}

/// A pre-check's failure as users recognise it.
pub fn precheck(why: &str) -> StepError {
    StepError::Refused(format!("Migration pre-check error: {why}"))
}

/// A record that is gone needs no change.
pub fn ignore_missing(result: Result<(), crate::db::DbError>) -> Result<(), StepError> {
    match result {
        Err(crate::db::DbError::NotFound(_)) => Ok(()),
        other => Ok(other?),
    }
}

/// The target, on the migration's record.
pub fn target_on_record(target: &Place, cross_cell: bool) -> MigrationChange {
    MigrationChange {
        cross_cell_move: Some(cross_cell),
        ..MigrationChange::target(Some(&target.host), Some(&target.node), Some("127.0.0.1"))
    }
}
