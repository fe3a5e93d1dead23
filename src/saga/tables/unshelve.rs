//! Unshelve: a shelved server on its host is started there. One without a host gets a host in its cell, as a new server does: its root disk
//! comes from the shelved image, its ports are bound and its volumes attached there. If that fails, the server stays SHELVED_OFFLOADED, and
//! tied to the zone as before. The choice of a host in another cell leads to `cross_cell_unshelve`, which shares most rows.

use std::collections::BTreeMap;

use super::cross_cell_unshelve;
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance_change::InstanceChange;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::quota::{self, ServerUsage};
use crate::domain::reason::Reason;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::saga::accept::ACCEPT;
use crate::saga::claim::{Claimed, GiveUp};
use crate::saga::context::{Context, Place, ServerFacts, Unshelve};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::scheduling::{OperationKind, RequestedDestination, SelectDestinations};
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{
    claim, claim_next_alternate, drop_claim_at_target, release_destination, scheduling_error, take_group_place, target_spec,
};
use crate::saga::steps::guest::{fence_target, guest_spec, remove_from_target};
use crate::saga::steps::ownership::{disown, take_ownership};
use crate::saga::steps::port_functions::wishes;
use crate::saga::steps::port_shares::{check_target, read_requests};
use crate::saga::steps::ports::activate_ports;
use crate::saga::steps::records::arrival;
use crate::saga::steps::shelf;
use crate::saga::steps::volumes::{attachments, complete_attachments, connect_volumes, drop_unnamed};
use crate::saga::world::World;

/// The event of the host that gets the server.
pub(super) const EVENT: &str = "compute_unshelve_instance";
/// The event of the image's check.
const IMAGE_EVENT: &str = "get_image_info";
/// The event of the choice of a host.
const CHOICE_EVENT: &str = "schedule_instances";

/// The operation.
pub const OPERATION: Operation = Operation::new(
    "unshelve",
    &[("unshelve_in_place", IN_PLACE), ("unshelve", TABLE), ("cross_cell_unshelve", cross_cell_unshelve::TABLE)],
    |context| match context {
        Context::Unshelve(unshelve) if unshelve.stays() => IN_PLACE,
        Context::Unshelve(unshelve) if unshelve.leaves_its_cell() => cross_cell_unshelve::TABLE,
        _ => TABLE,
    },
)
.moving();

/// The saga of a server that is still on its host.
pub const IN_PLACE: Table = Table::of(&[
    ACCEPT,
    Step::reversible(StepName::Begin, work!(begin), Undo::Nothing("it only tells")),
    Step::reversible(StepName::StartGuest, work!(start_in_place), Undo::By(work!(stop_in_place)))
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(300))
        .tried(4)
        .serving(),
    Step::forward(StepName::FinishUnshelve, work!(finish_in_place)),
    DELETE_SHELVED_IMAGE,
]);

/// The saga of a server without a host.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectHost) };

const STEPS: &[Step] = &[
    ACCEPT,
    CHECK_IMAGE,
    SELECT_HOST,
    CLAIM_AT_HOST,
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    PREPARE_AT_TARGET,
    TAKE_OWNERSHIP,
    START_AT_TARGET,
    Step::forward(StepName::FinishUnshelve, work!(finish)),
    RELEASE_SOURCE_VOLUMES,
    DELETE_SHELVED_IMAGE,
];

pub(super) const CHECK_IMAGE: Step = Step::reversible(StepName::CheckImage, work!(check_image), Undo::Nothing("it changes nothing"));

/// The choice decides between the two tables, so both begin with the steps up to this one.
pub(super) const SELECT_HOST: Step =
    Step::claiming(StepName::SelectHost, claims!(select_host), GiveUp::By(work!(release_destination))).before_the_next_move();

pub(super) const CLAIM_AT_HOST: Step =
    Step::claiming(StepName::ClaimAtHost, claims!(claim_at_host), GiveUp::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target));

pub(super) const BIND_PORTS_AT_TARGET: Step =
    Step::reversible(StepName::BindPortsAtTarget, work!(bind_ports), Undo::AtCandidate(work!(unbind_ports)))
        .moot_when(Moot::InUseAgain(At::Target));

/// Beside the placeholders, which keep the volumes until the server is there.
pub(super) const RESERVE_VOLUMES_FOR_TARGET: Step =
    Step::reversible(StepName::ReserveVolumesForTarget, work!(reserve_volumes), Undo::By(work!(release_volumes)))
        .idle(idle::without_volumes);

pub(super) const PREPARE_AT_TARGET: Step = Step::reversible(StepName::PrepareAtTarget, work!(prepare), Undo::By(work!(remove_from_target)))
    .moot_when(Moot::InUseAgain(At::Target))
    .within(Deadline::WithoutProgress(60));

/// As in a move: no guest runs before a commit has named its owner.
pub(super) const TAKE_OWNERSHIP: Step = Step::pivot(StepName::TakeOwnership, work!(take_ownership), Undo::By(work!(disown)));

pub(super) const START_AT_TARGET: Step =
    Step::forward_or_back(StepName::StartAtTarget, work!(start), Undo::By(work!(fence_target))).within(Deadline::Within(300));

pub(super) const RELEASE_SOURCE_VOLUMES: Step =
    Step::cleanup(StepName::ReleaseSourceVolumes, work!(release_placeholders)).idle(idle::without_volumes);

/// Last: until the server runs, the image is all that is left of its root disk.
pub(super) const DELETE_SHELVED_IMAGE: Step = Step::cleanup(StepName::DeleteShelvedImage, work!(delete_image)).idle(has_no_image);

async fn begin(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    history::apply_and_notify(world, context, fence, CellTxn::new(), (StepName::Begin, InstanceAction::Unshelve, Phase::Start), &here).await
}

async fn start_in_place(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    world.ask(context, &here, fence, HostCommand::StartGuest).await.map(drop)
}

/// Undo: the guest is off again.
async fn stop_in_place(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let stop = HostCommand::StopGuest { grace_ms: world.settings.shutdown_grace_ms };
    world.ask(context, &here, fence, stop).await.map(drop)
}

async fn finish_in_place(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let here = context.source()?.clone();
    let metadata = world.cell(&here.cell)?.instance(context.server).await?.system_metadata;
    let change = InstanceChange {
        power_state: Some(PowerState::Running),
        system_metadata: Some(shelf::unshelved(metadata)),
        ..InstanceChange::states(VmState::Active, None)
    };
    let txn = history::succeeded(CellTxn::new().instance_change(context.server, change), context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishUnshelve, InstanceAction::Unshelve, Phase::End), &here).await
}

/// Begins or ends an event that belongs to no host.
async fn record_event(world: &World, context: &Unshelve, fence: Fence, event: &str, done: bool) -> Result<(), StepError> {
    let home = context.home()?;
    let txn = match done {
        false => history::event_started(CellTxn::new(), context, event, None),
        true => history::event_done(CellTxn::new(), context, event, None),
    };
    Ok(world.cell(home)?.apply(fence, txn).await?)
}

/// Refuses before anything is claimed, if the root disk cannot be made.
async fn check_image(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    if context.volume_backed {
        return Ok(());
    }
    record_event(world, context, fence, IMAGE_EVENT, false).await?;
    let image = context.image.ok_or_else(|| StepError::Refused("The shelved server has no image.".into()))?;
    shelf::usable_image(world, context, image).await?;
    record_event(world, context, fence, IMAGE_EVENT, true).await
}

/// Returns the request spec in the zone that the request asks for. It is stored when the server is there, and not before.
pub(super) fn spec_of(context: &Unshelve) -> Result<RequestSpec, StepError> {
    let spec = target_spec(context)?;
    Ok(RequestSpec { availability_zone: context.request.zone.over(spec.availability_zone.as_deref()), ..spec })
}

async fn select_host(world: &World, context: &mut Unshelve, fence: Fence) -> Result<Claimed, StepError> {
    let spec = spec_of(context)?;
    if !context.candidates.refusals.is_empty() {
        let Unshelve { facts, candidates, .. } = context;
        return claim_next_alternate(world, facts, candidates, fence, &spec).await;
    }
    read_requests(world, context).await?;
    record_event(world, context, fence, CHOICE_EVENT, false).await?;
    let (host, may_leave) = (context.request.host.clone(), context.request.cross_cell_allowed);
    let destination = RequestedDestination::of_move(context.home()?, host, may_leave);
    let request = SelectDestinations {
        port_requests: context.port_requests(),
        requested_destination: Some(destination),
        ..SelectDestinations::of_server_without_host(OperationKind::Unshelve, spec, context.new_resources(), fence)
    };
    let selection = world.scheduling.select_destinations(request).await.map_err(scheduling_error)?;
    let Unshelve { facts, candidates, .. } = &mut *context;
    let claimed = selection.record(facts, candidates)?;
    record_event(world, context, fence, CHOICE_EVENT, true).await?;
    Ok(claimed)
}

/// Has the host claim the room. Judges group and quota again, because others may have come since the choice.
async fn claim_at_host(world: &World, context: &mut Unshelve, fence: Fence) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    check_quota(world, context).await?;
    take_group_place(world, context, fence, &target).await?;
    let functions = wishes(world, context).await?;
    claim(world, context, fence, functions).await.map_err(|error| match error {
        StepError::Refused(why) | StepError::Unknown(why) => StepError::NextCandidate(why),
        other => other,
    })
}

/// Refuses if the claims of the project or of the server's user, this one included, exceed their limits.
async fn check_quota(world: &World, context: &Unshelve) -> Result<(), StepError> {
    let Some(limits) = &context.request.limits else { return Ok(()) };
    let held = world.placement.held_by_project(&context.project_id).await?;
    let used_by = |user: Option<&str>| {
        let counted = || held.iter().filter(move |one| user.is_none_or(|user| one.user_id == user));
        let of_class = |class: &str| counted().filter_map(|one| one.amounts.get(class)).sum::<i64>();
        ServerUsage { instances: 0, cores: of_class("VCPU"), ram: of_class("MEMORY_MB") }
    };
    let (of_project, of_user, more) = (used_by(None), used_by(Some(context.user_id.as_str())), [("cores", 0), ("ram", 0)]);
    let own = || quota::refusal_of_user(&context.request.user_limits, |resource| of_user.of(resource), &more);
    match quota::refusal(limits, |resource| of_project.of(resource), &more).or_else(own) {
        Some(why) => Err(StepError::Refused(Reason::public(why))),
        None => Ok(()),
    }
}

async fn bind_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    check_target(world, context).await?;
    let host = context.target()?.host.clone();
    activate_ports(world, context, fence, &host).await
}

async fn unbind_ports(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    for port in &context.ports {
        world.network.delete_binding(fence, port.port_id, &target.host).await?;
    }
    Ok(())
}

async fn reserve_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        let mount = Some(volume.device_name.as_str());
        world.volumes.create_attachment(fence, volume.target_attachment, volume.volume_id, None, mount).await?;
    }
    Ok(())
}

async fn release_volumes(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    for volume in &context.volumes {
        world.volumes.delete_attachment(fence, volume.target_attachment).await?;
    }
    Ok(())
}

/// Builds the guest on its new host without starting it: all that can fail there fails here, while the way back is open.
async fn prepare(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    // Users see the record in the server's cell until the end.
    let here = Place { cell: context.home()?.to_owned(), ..target.clone() };
    let txn = CellTxn::new().instance_change(context.server, InstanceChange::task(Some(TaskState::Spawning)));
    let txn = history::event_started(txn, context, EVENT, Some(&target));
    let event = (StepName::PrepareAtTarget, InstanceAction::Unshelve, Phase::Start);
    history::apply_and_notify(world, context, fence, txn, event, &here).await?;
    let volumes = connect_volumes(world, context, fence, &target, |volume| volume.target_attachment).await?;
    let disks = match context.image.filter(|_| !context.volume_backed) {
        Some(image) => DiskSource::Image { image_id: shelf::usable_image(world, context, image).await?.id },
        None => DiskSource::Volume,
    };
    let flavor = context.new_flavor.clone().unwrap_or_default();
    let spec = guest_spec(world, context, &target, flavor, disks, volumes).await?;
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

async fn start(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.ask(context, &target, fence, HostCommand::StartGuest).await?;
    complete_attachments(world, context, fence).await
}

/// Stores the zone, then writes ACTIVE and the host in one commit.
async fn finish(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.api.publish_move(fence, context.server, world.cell_uuid(&target.cell)?, spec_of(context)?).await?;
    let metadata = world.cell(&target.cell)?.instance(context.server).await?.system_metadata;
    let txn = CellTxn::new().instance_change(context.server, running_at(world, &target, metadata));
    let mut txn = attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    txn = history::event_done(txn, context, EVENT, Some(&target));
    txn = history::succeeded(txn, context);
    history::apply_and_notify(world, context, fence, txn, (StepName::FinishUnshelve, InstanceAction::Unshelve, Phase::End), &target).await
}

/// Returns the change of the record of a server that runs at its new host and is shelved no more.
pub(super) fn running_at(world: &World, target: &Place, metadata: BTreeMap<String, String>) -> InstanceChange {
    InstanceChange {
        launched_at: Some(Some(world.env.now())),
        system_metadata: Some(shelf::unshelved(metadata)),
        ..arrival(target, VmState::Active, PowerState::Running)
    }
}

/// Gives up the placeholders that held the volumes while the server had no host.
async fn release_placeholders(world: &World, context: &mut ServerFacts, fence: Fence) -> Result<(), StepError> {
    drop_unnamed(world, context, fence, context.volumes.iter().map(|volume| volume.source_attachment)).await
}

/// A volume has the root disk.
fn has_no_image(context: &Context) -> bool {
    matches!(context, Context::Unshelve(unshelve) if unshelve.image.is_none())
}

async fn delete_image(world: &World, context: &mut Unshelve, fence: Fence) -> Result<(), StepError> {
    shelf::delete_image(world, context, fence, context.image).await
}
