//! The first step of every operation on an existing server. While the operation's row holds the server, it checks the server's state, reads
//! the facts for later steps, and sets the task that users see. Its undo gives the server back.

use uuid::Uuid;

use super::context::{Context, HostNeed, Place, PortLink, Prior, ServerFacts, VolumeLink};
use super::error::StepError;
use super::history;
use super::refusal::Refusal;
use super::step::{Step, Undo, work};
use super::step_name::StepName;
use super::tables::accept_again;
use super::world::{CELL0, World};
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::db::cell::instance_list::InstanceView;
use crate::domain::debt::Debt;
use crate::domain::fence::Fence;
use crate::domain::instance::Instance;
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::migration::{Migration, MigrationStatus};
use crate::domain::moment;
use crate::domain::reason;
use crate::domain::reason::{Inside, Reason};
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::domain::standing::Standing;
use crate::env::guard::{Guard, stands};

/// The first step of an operation on an existing server.
pub const ACCEPT: Step = Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(give_back)));

/// Checks and begins. After a crash a repetition accepts its own task.
pub async fn accept_existing(world: &World, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
    let (cell, view) = find_view(world, context.server).await?;
    check_state(context, &view.instance)?;
    read_server(world, context, &cell, &view).await?;
    check_host(world, context).await?;
    let (part, rules) = (context.part(), context.part().rules());
    let task = rules.first_task_state;
    let task_states = if rules.ignores_task { Vec::new() } else { vec![None, task] };
    let expected = Expected { vm_states: rules.allowed_states.to_vec(), task_states };
    let change = InstanceChange { progress: Some(0), ..InstanceChange::task(task) };
    let mut txn = CellTxn::new().instance_change_if(context.server, expected, change);
    txn = history::action_started(txn, part);
    if let (Some(status), Some(migration)) = (rules.ended_move, context.migration) {
        txn = txn.migration_status(migration, status);
    }
    let txn = part.first_writes(world, txn).await?;
    world.cell(&cell)?.apply(fence, txn).await.map_err(|error| match error {
        DbError::WrongState { vm_state, task_state, .. } => Refusal::Conflict(wrong_state(context, vm_state, task_state)),
        other => other.into(),
    })
}

/// Undo: gives the server its earlier state, or ERROR if its guest could not be restored. The action and the fault say why.
pub async fn give_back(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Some((cell, instance)) = find(world, context.server).await.map(Some).or_else(|refusal| match refusal {
        Refusal::NotFound(_) => Ok(None),
        other => Err(StepError::from(other)),
    })?
    else {
        return Ok(());
    };
    // After an accept with an unknown end there are no facts; apart from the task, the record has not changed.
    let prior = context.prior.clone().unwrap_or(Prior {
        vm_state: instance.vm_state,
        running: instance.power_state == PowerState::Running,
        launched: instance.launched_at.is_some(),
    });
    let vm_state = if context.service_lost { VmState::Error } else { prior.vm_state };
    let power = if context.service_lost { PowerState::Shutdown } else { prior.power() };
    let change = InstanceChange { power_state: Some(power), ..InstanceChange::states(vm_state, None) };
    // A confirm or a revert may be repeated (NOVA-DIFFERENCES L12). One commit, so that a late accept finds no moment in between.
    let txn = CellTxn::new().instance_change(context.server, change).end_not_begun(context.server);
    let txn = context.part().undone_writes(world, txn);
    let txn = history::failed(txn, world, context.part());
    world.cell(&cell)?.apply(fence, txn).await?;
    if let (Some(event), Some(place)) = (context.part().rules().failure_event, context.source.clone()) {
        let here = Place { cell, ..place };
        history::emit(world, context.part(), StepName::Accept, event, &here).await;
    }
    Ok(())
}

/// Returns the record in the cell that the mapping names, and the cell's name.
pub async fn find(world: &World, server: Uuid) -> Result<(String, Instance), Refusal> {
    let cell = cell_of(world, server).await?;
    let instance = world.cell(&cell)?.instance(server).await;
    Ok((cell, instance.map_err(|error| missing_or(server, error))?))
}

/// Returns as [`find`] does, with the record's details.
async fn find_view(world: &World, server: Uuid) -> Result<(String, InstanceView), Refusal> {
    let cell = cell_of(world, server).await?;
    let view = world.cell(&cell)?.instance_view(server).await;
    Ok((cell, view.map_err(|error| missing_or(server, error))?))
}

async fn cell_of(world: &World, server: Uuid) -> Result<String, Refusal> {
    let mapping = world.api.instance_mapping(server).await.map_err(|error| missing_or(server, error))?;
    let cell_uuid = mapping.cell_uuid.ok_or_else(|| Refusal::Conflict(reason!("Instance {server} has no host yet.")))?;
    Ok(world.cell_name(cell_uuid)?.to_owned())
}

fn missing_or(server: Uuid, error: DbError) -> Refusal {
    match error {
        DbError::NotFound(_) => Refusal::NotFound(reason!("Instance {server} could not be found.")),
        other => other.into(),
    }
}

/// Returns the task of the operation that holds the server; none if that operation is about to end.
pub async fn busy_with(world: &World, context: &Context) -> Result<Option<TaskState>, Refusal> {
    if context.kind.operation().makes_server {
        return Ok(None);
    }
    if world.api.instance_mapping(context.server).await.is_ok_and(|mapping| mapping.delete_request.is_some()) {
        return Ok(Some(TaskState::Deleting));
    }
    Ok(find(world, context.server).await?.1.task_state)
}

/// Returns the refusal's text for a server that another operation holds.
pub fn busy_message(context: &Context, task: Option<TaskState>) -> Reason {
    let (verb, server) = (context.part().rules().verb, context.server);
    match task {
        Some(task) => reason!("Cannot '{verb}' instance {server} while it is in task_state {task}"),
        None => reason!("Cannot '{verb}' instance {server} while another operation on it is in progress"),
    }
}

/// Returns the refusal's text for a server with a debt that the operation waits for.
pub fn owing_message(context: &Context, debt: &Debt) -> Reason {
    let (verb, server) = (context.part().rules().verb, context.server);
    let why = Reason::read(&debt.reason);
    reason!("Cannot '{verb}' instance {server} while what its last move left is being cleaned up ({}: {why})", debt.step)
}

fn wrong_state(context: &Context, vm_state: VmState, task_state: Option<TaskState>) -> Reason {
    let state = match task_state {
        Some(task) => format!("task_state {task}"),
        None => format!("vm_state {vm_state}"),
    };
    reason!("Cannot '{}' instance {} while it is in {state}", context.part().rules().verb, context.server)
}

fn check_state(context: &Context, instance: &Instance) -> Result<(), Refusal> {
    let rules = context.part().rules();
    let own = rules.first_task_state;
    let free = rules.ignores_task || instance.task_state.is_none() || instance.task_state == own;
    if !free || !rules.allowed_states.contains(&instance.vm_state) {
        let task = if free { None } else { instance.task_state };
        return Err(Refusal::Conflict(wrong_state(context, instance.vm_state, task)));
    }
    let has_memory = matches!(instance.power_state, PowerState::Running | PowerState::Paused);
    if rules.needs_memory && !has_memory {
        return Err(Refusal::Conflict(reason!(
            "Cannot '{}' instance {} while its guest does not run (power_state {})",
            rules.verb,
            context.server,
            instance.power_state.code()
        )));
    }
    if rules.needs_launch && instance.launched_at.is_none() {
        return Err(Refusal::Conflict(reason!("Cannot '{}' instance {} while it has never been active", rules.verb, context.server)));
    }
    Ok(())
}

/// Reads the facts for all later steps: after this no step reads the earlier state from a record.
async fn read_server(world: &World, context: &mut Context, cell: &str, view: &InstanceView) -> Result<(), Refusal> {
    let InstanceView { instance, details } = view;
    context.project_id = instance.project_id.clone();
    context.user_id = instance.user_id.clone();
    context.display_name = instance.display_name.clone();
    context.volume_backed = instance.is_volume_backed();
    context.prior = Some(Prior {
        vm_state: instance.vm_state,
        running: instance.power_state == PowerState::Running,
        launched: instance.launched_at.is_some(),
    });
    context.request_spec = match world.api.request_spec(context.server).await {
        Err(DbError::NotFound(_)) => None,
        other => Some(other?),
    };
    context.old_flavor = Some(instance.flavor.clone());
    let here = place_of(world, cell, instance).await?;
    context.source = here.clone();
    context.migration = Some(context.saga);
    if let VmState::Resized | VmState::Error = instance.vm_state {
        // By its status, not by its time: clocks may go backward.
        let migration = world.cell(cell)?.latest_migration(context.server, &ENDING).await?;
        require_only_move(context, migration.as_ref().map(|migration| migration.uuid))?;
        if instance.vm_state == VmState::Resized || context.part().rules().ends_any_move {
            read_move(world, context, instance, here, migration).await?;
        } else {
            meet_waiting_move(context, migration.is_some())?;
        }
    }
    context.ports = details
        .network_info
        .0
        .iter()
        .map(|vif| PortLink { port_id: vif.port_id, mac: vif.mac_address.clone(), made_for_server: vif.created_for_server })
        .collect();
    context.part_mut().read_record(cell, view);
    context.volumes = details
        .block_devices
        .iter()
        .filter(|device| device.is_volume())
        .filter_map(|device| Some((device, device.volume_id?, device.attachment_id?)))
        .map(|(device, volume_id, attachment)| link(context, volume_id, attachment, device.device_name.clone(), device.boot_index))
        .collect();
    Ok(())
}

/// Refuses a confirm of another move than the one that waits.
fn require_only_move(context: &Context, waiting: Option<Uuid>) -> Result<(), Refusal> {
    match context.part().only_move() {
        Some(only) if waiting != Some(only) => {
            Err(Refusal::Conflict(reason!("Migration {only} of instance {} does not wait for a confirm.", context.server)))
        }
        _ => Ok(()),
    }
}

fn link(context: &ServerFacts, volume_id: Uuid, attachment: Uuid, device_name: Option<String>, boot_index: Option<i32>) -> VolumeLink {
    let derived = |purpose: &str| context.derived_id(&format!("{purpose}:{volume_id}"));
    // After a move the record names the target's attachment, and a revert makes a new one for the source.
    let at_target = context.target.is_some();
    VolumeLink {
        volume_id,
        device_name: device_name.unwrap_or_default(),
        boot_index,
        source_attachment: if at_target { derived("back") } else { attachment },
        placeholder: derived("placeholder"),
        target_attachment: if at_target { attachment } else { derived("target") },
    }
}

/// The states of a move that waits for confirm or revert, or is being confirmed or reverted.
pub(super) const ENDING: [MigrationStatus; 3] = [MigrationStatus::Finished, MigrationStatus::Confirming, MigrationStatus::Reverting];

/// Reads the facts of the move that a confirm, a revert or a delete ends: the server is at the move's target.
async fn read_move(
    world: &World,
    context: &mut Context,
    instance: &Instance,
    here: Option<Place>,
    migration: Option<Migration>,
) -> Result<(), Refusal> {
    let Some(migration) = migration else {
        if context.part().rules().ends_any_move {
            return Ok(());
        }
        return Err(Refusal::Invalid("Instance has not been resized.".into()));
    };
    let source_cell = world.cell_of_host(&migration.source_compute).await?;
    let node = world.node_on(&source_cell, &migration.source_compute).await?;
    context.source = Some(Place {
        cell: source_cell,
        host: migration.source_compute.clone(),
        node: node.hypervisor_hostname.clone(),
        provider: node.uuid,
        availability_zone: Some(world.zone_of(&migration.source_compute).await?),
    });
    context.target = here;
    context.migration = Some(migration.uuid);
    context.old_flavor = instance.old_flavor.clone();
    context.new_flavor = Some(instance.flavor.clone());
    context.part_mut().read_move(instance);
    Ok(())
}

/// Refuses some operations while a move of a server in ERROR waits for confirm or revert, and lets the others note whether one waits.
fn meet_waiting_move(context: &mut Context, waits: bool) -> Result<(), Refusal> {
    if waits && context.part().rules().refuses_waiting_move {
        return Err(Refusal::Conflict(reason!(
            "Cannot '{}' instance {} whose resize waits for confirm or revert: hard reboot it, then do one of them",
            context.part().rules().verb,
            context.server
        )));
    }
    context.part_mut().note_waiting_move(waits);
    Ok(())
}

/// Returns the place in the server's record; none if it never got a host.
async fn place_of(world: &World, cell: &str, instance: &Instance) -> Result<Option<Place>, Refusal> {
    let (Some(host), false) = (&instance.host, cell == CELL0) else { return Ok(None) };
    let node = world.node_on(cell, host).await?;
    Ok(Some(Place {
        cell: cell.to_owned(),
        host: host.clone(),
        node: node.hypervisor_hostname.clone(),
        provider: node.uuid,
        availability_zone: instance.availability_zone.clone(),
    }))
}

/// Returns the host without which the operation cannot be done; none if it can.
fn needed_host(context: &Context) -> Result<Option<&Place>, Refusal> {
    match context.part().host_need() {
        HostNeed::Source | HostNeed::SourceDown => match &context.source {
            Some(source) => Ok(Some(source)),
            None => Err(Refusal::Conflict(reason!("Instance {} has no host.", context.server))),
        },
        HostNeed::SourceIfAny => Ok(context.source.as_ref()),
        HostNeed::Guest | HostNeed::Nothing => Ok(place_of_work(context)),
    }
}

/// Returns the host of an operation that works on the guest where it is; none for an operation that moves the server or needs no host.
pub fn place_of_work(context: &Context) -> Option<&Place> {
    match context.part().host_need() {
        HostNeed::Guest => context.part().here(),
        HostNeed::Nothing | HostNeed::Source | HostNeed::SourceIfAny | HostNeed::SourceDown => None,
    }
}

/// Refuses an operation while the host is down that it needs, and an evacuation while the source host is up or silent.
async fn check_host(world: &World, context: &Context) -> Result<(), Refusal> {
    let Some(host) = needed_host(context)? else { return Ok(()) };
    if context.part().host_need() == HostNeed::SourceDown {
        return check_evacuated(world, host).await;
    }
    if !world.is_up(host).await? {
        return Err(Refusal::Conflict(reason!("Service is unavailable at this time: its compute host is down {}.", Inside(&host.host))));
    }
    Ok(())
}

/// Refuses an evacuation from a host that is up, or that is silent and was not forced down: such a host may run its guests.
pub async fn check_evacuated(world: &World, source: &Place) -> Result<(), Refusal> {
    if stands(Guard::EvacuatedHostDown) && world.is_up(source).await? {
        return Err(Refusal::Invalid(reason!("Compute service of {} is still in use.", source.host)));
    }
    match world.standing(source).await? {
        Standing::Silent { since, .. } if stands(Guard::SilentSource) => Err(Refusal::Conflict(reason!(
            "Compute host {host} has not answered since {}, and may run the server. Wait until it answers, or make sure that it is off and \
             force it down: openstack compute service set --down {host} nova-compute",
            moment::seconds(since),
            host = source.host,
        ))),
        _ => Ok(()),
    }
}
