//! Create: a new server gets a host, ports, volumes and a guest. Users see the build request until the cell's record is
//! complete. A create that fails leaves a record in ERROR in cell0, which holds no resources.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::accept_again;
use crate::db::DbError;
use crate::db::api::publications::NewServer;
use crate::db::cell::CellTxn;
use crate::domain::block_device::BlockDevice;
use crate::domain::fence::Fence;
use crate::domain::guest::DiskSource;
use crate::domain::host_protocol::HostCommand;
use crate::domain::instance::Instance;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::network_info::NetworkInfo;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason::Reason;
use crate::domain::secret::Secret;
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::domain::virtual_interface::VirtualInterface;
use crate::env::guard::{Guard, stands};
use crate::saga::claim::{Claimed, GiveUp};
use crate::saga::context::{Context, Create, CreateRequest, PortLink, Prior, ServerFacts, View, VolumeLink, first_boot};
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::operation::Operation;
use crate::saga::refusal::Refusal;
use crate::saga::scheduling::{OperationKind, SelectDestinations};
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, claims, misplaced, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{
    claim, claim_next_alternate, drop_claim_at_target, release_destination, scheduling_error, take_group_place,
};
use crate::saga::steps::guest::{fence_target, guest_spec, remove_from_target, start_at_target};
use crate::saga::steps::ownership::{disown, take_ownership};
use crate::saga::steps::port_functions::wishes;
use crate::saga::steps::port_shares::{check_target, read_requests_of, refuse_policy_of_network};
use crate::saga::steps::ports::vif_of;
use crate::saga::steps::volumes::connect_volumes;
use crate::saga::world::{CELL0, World};
use crate::services::network::{NewPort, Port};
use crate::services::volume::NewVolume;

/// The operation.
pub const OPERATION: Operation =
    Operation::new("create", &[("create", TABLE)], |_| TABLE).making_server(|world, context, fence| match View::of(context) {
        Some(create) => Box::pin(accept(world, create, fence)),
        None => Box::pin(std::future::ready(Err(misplaced().into()))),
    });

/// The saga.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectHost) };

const STEPS: &[Step] = &[
    Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(bury_in_cell0))),
    Step::claiming(StepName::SelectHost, claims!(select_host), GiveUp::By(work!(release_destination))),
    Step::claiming(StepName::ClaimAtHost, claims!(claim_at_host), GiveUp::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    Step::reversible(StepName::MakePorts, work!(make_ports), Undo::By(work!(give_up_ports))),
    Step::reversible(StepName::MakeVolumes, work!(make_volumes), Undo::By(work!(give_up_volumes)))
        .within(Deadline::Within(600))
        .idle(asks_for_no_volumes),
    Step::reversible(StepName::PrepareGuest, work!(prepare_guest), Undo::By(work!(remove_from_target)))
        .within(Deadline::WithoutProgress(60)),
    // As in a move: no guest runs before a commit has named its owner.
    Step::pivot(StepName::TakeOwnership, work!(take_ownership), Undo::By(work!(disown))),
    Step::forward_or_back(StepName::StartGuest, work!(start_at_target), Undo::By(work!(fence_target))).within(Deadline::Within(300)),
    Step::forward(StepName::CreateRecord, work!(create_record)),
    Step::forward(StepName::PublishBuild, work!(publish_build)),
];

/// Creates the mapping, the request spec and the build request in one transaction: from here on the server exists. Refused if the project
/// has no room any more.
async fn accept(world: &World, context: &mut Create, fence: Fence) -> Result<(), Refusal> {
    let request = context.request.clone();
    context.display_name = request.instance.instance.display_name.clone();
    context.project_id = request.instance.instance.project_id.clone();
    context.user_id = request.instance.instance.user_id.clone();
    context.volume_backed = request.instance.instance.is_volume_backed();
    context.new_flavor = Some(request.instance.instance.flavor.clone());
    context.request_spec = Some((*request.request_spec).clone());
    context.prior = Some(Prior { vm_state: VmState::Building, running: true, launched: false });
    let (config, mut secrets) = first_boot::read(context, &world.env)?;
    let mut bundle = (*request.instance).clone();
    if let Some(user_data) = secrets.user_data.take() {
        bundle.instance.user_data = Some(user_data.expose().clone());
    }
    let server = NewServer { instance: bundle, request_spec: (*request.request_spec).clone() };
    let refusal = match request.room.into_grant() {
        Ok(granted) => world.api.create_server(fence, server, granted).await.map(|()| None),
        // Concurrent requests may have taken the room since the handler's check.
        Err(room) => world
            .api
            .create_server_within(fence, server, room)
            .await
            .map(|done| done.err().map(|why| Refusal::Forbidden(Reason::public(why)))),
    };
    let refusal = match refusal {
        Ok(None) => None,
        Ok(Some(refusal)) => Some(refusal),
        Err(stale @ DbError::Stale(..)) => return Err(stale.into()),
        Err(error) => Some(error.into()),
    };
    // Only this saga creates this server: if it exists, an earlier try of the saga has succeeded late.
    if let Some(refusal) = refusal
        && world.api.instance_mapping(context.server).await.is_err()
    {
        return Err(refusal);
    }
    // The build request keeps the user data until the cell's record has them.
    first_boot::keep(context, &world.env, config, &secrets);
    Ok(())
}

/// Returns the user data of a server that no cell has yet.
async fn user_data(world: &World, context: &ServerFacts) -> Result<Option<String>, StepError> {
    match world.api.build_request(context.server).await {
        Ok(build) => Ok(build.instance.user_data),
        Err(DbError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Undo: leaves the server as a record in ERROR with the reason, in cell0.
async fn bury_in_cell0(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    let request = context.request.clone();
    // Raises the fence first: a late act must not create the server after this look.
    if stands(Guard::TombstoneOfBuild) {
        world.api.raise_fence(fence).await?;
    }
    match world.api.instance_mapping(context.server).await {
        Err(DbError::NotFound(_)) => return Ok(()),
        other => other?,
    };
    let mut bundle = *request.instance;
    bundle.instance = Instance {
        // A cancelled create has not failed: its delete follows.
        vm_state: if context.cancelled { VmState::Building } else { VmState::Error },
        task_state: None,
        power_state: PowerState::NoState,
        hidden: true,
        user_data: user_data(world, context).await?,
        ..bundle.instance
    };
    let buried = matches!(world.cell(CELL0)?.instance(context.server).await, Ok(instance) if !instance.hidden);
    let txn = if buried { CellTxn::new() } else { CellTxn::new().import_bundle(bundle, true) };
    let txn = history::action_started(txn, context);
    let txn = history::failed(txn, world, context).hidden(context.server, false);
    world.cell(CELL0)?.apply(fence, txn).await?;
    Ok(world.api.publish_build(fence, context.server, world.cell_uuid(CELL0)?).await?)
}

async fn select_host(world: &World, context: &mut Create, fence: Fence) -> Result<Claimed, StepError> {
    let spec = context.request_spec.clone().ok_or_else(|| StepError::Refused("no request spec".into()))?;
    if !context.candidates.refusals.is_empty() {
        let Create { facts, candidates, .. } = context;
        return claim_next_alternate(world, facts, candidates, fence, &spec).await;
    }
    let ports: Vec<Uuid> = context.request.networks.iter().filter(|one| one.network_id.is_none()).map(|one| one.port_id).collect();
    read_requests_of(world, context, ports.into_iter()).await?;
    let request = SelectDestinations {
        port_requests: context.port_requests(),
        forced_host: context.request.host.clone(),
        ..SelectDestinations::of_server_without_host(OperationKind::Create, spec, context.new_resources(), fence)
    };
    let selection = world.scheduling.select_destinations(request).await.map_err(scheduling_error)?;
    let Create { facts, candidates, .. } = context;
    selection.record(facts, candidates)
}

async fn claim_at_host(world: &World, context: &mut Create, fence: Fence) -> Result<Claimed, StepError> {
    let target = context.target()?.clone();
    take_group_place(world, context, fence, &target).await?;
    let functions = wishes(world, context).await?;
    claim(world, context, fence, functions).await.map_err(|error| match error {
        StepError::Refused(why) | StepError::Unknown(why) => StepError::NextCandidate(why),
        other => other,
    })
}

/// Makes or claims the ports, and binds them to the host.
async fn make_ports(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    check_target(world, context).await?;
    let host = context.target()?.host.clone();
    let project_id = context.project_id.clone();
    if !context.request.networks.is_empty() {
        world.api.set_build_task(fence, context.server, TaskState::Networking).await?;
    }
    let mut ports = Vec::new();
    for request in context.request.networks.clone() {
        let port = match request.network_id {
            Some(network_id) => {
                let new = NewPort {
                    id: request.port_id,
                    network_id,
                    project_id: project_id.clone(),
                    fixed_ip: request.fixed_ip,
                    security_groups: request.security_groups,
                };
                refuse_policy_of_network(context, world.network.create_port(fence, new).await?)?
            }
            None => world.network.claim_port(fence, request.port_id).await?,
        };
        world.network.create_binding(fence, port.id, &host, context.host_key(port.id, &host)).await?;
        ports.push(PortLink { port_id: port.id, mac: port.mac_address, made_for_server: request.network_id.is_some() });
    }
    context.ports = ports;
    Ok(())
}

async fn give_up_ports(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    for request in &context.request.networks {
        if request.network_id.is_some() {
            world.network.delete_port(fence, request.port_id).await?;
        } else {
            world.network.release_port(fence, request.port_id).await?;
        }
    }
    Ok(())
}

/// Makes the new volumes. An attachment holds each volume for the host.
fn asks_for_no_volumes(context: &Context) -> bool {
    matches!(context, Context::Create(create) if create.request.volumes.is_empty())
}

async fn make_volumes(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    let host = context.target()?.host.clone();
    if !context.request.volumes.is_empty() {
        world.api.set_build_task(fence, context.server, TaskState::BlockDeviceMapping).await?;
    }
    let mut links = Vec::new();
    for request in context.request.volumes.clone() {
        if let Some(size_gb) = request.create_gb {
            let volume = NewVolume {
                id: request.volume_id,
                name: None,
                caller: context.caller.clone(),
                size_gb,
                source: request.source(),
                volume_type: request.volume_type,
            };
            world.volumes.create_volume(fence, volume).await?;
        }
        let attachment = context.derived_id(&format!("attachment:{}", request.volume_id));
        world.volumes.create_attachment(fence, attachment, request.volume_id, Some(&host), Some(&request.device_name)).await?;
        links.push(VolumeLink {
            volume_id: request.volume_id,
            device_name: request.device_name,
            boot_index: request.boot_index,
            source_attachment: attachment,
            placeholder: attachment,
            target_attachment: attachment,
        });
    }
    context.volumes = links;
    Ok(())
}

async fn give_up_volumes(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    for request in &context.request.volumes {
        world.volumes.delete_attachment(fence, context.derived_id(&format!("attachment:{}", request.volume_id))).await?;
        if request.create_gb.is_some() {
            world.volumes.delete_volume(fence, request.volume_id).await?;
        }
    }
    Ok(())
}

async fn prepare_guest(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let request = context.request.clone();
    world.api.set_build_task(fence, context.server, TaskState::Spawning).await?;
    let volumes = connect_volumes(world, context, fence, &target, |volume| volume.target_attachment).await?;
    let disks = match (&request.request_spec.image_id, context.volume_backed) {
        (Some(image_id), false) => DiskSource::Image { image_id: world.usable_image(context, *image_id).await?.id },
        _ => DiskSource::Volume,
    };
    let flavor = request.instance.instance.flavor.clone();
    let mut spec = guest_spec(world, context, &target, flavor, disks, volumes).await?;
    let (config, mut secrets) = first_boot::read(context, &world.env)?;
    secrets.user_data = user_data(world, context).await?.map(Secret::new);
    (spec.config_drive, spec.sealed) = (config, Some(world.seal_for(&target, &secrets).await?));
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await.map(drop)
}

/// Writes the complete record, ACTIVE, with all that belongs to it.
async fn create_record(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let request = context.request.clone();
    let now = world.env.now();
    let instance = Instance {
        host: Some(target.host.clone()),
        node: Some(target.node.clone()),
        availability_zone: target.availability_zone.clone(),
        vm_state: VmState::Active,
        task_state: None,
        power_state: PowerState::Running,
        launched_at: Some(now),
        user_data: user_data(world, context).await?,
        ..request.instance.instance.clone()
    };
    let ports = world.network.ports_of(context.server).await?;
    let mut bundle = InstanceBundle { instance, ..*request.instance.clone() };
    bundle.virtual_interfaces = ports
        .iter()
        .map(|port| VirtualInterface {
            port_id: port.id,
            instance_uuid: context.server,
            created_at: now,
            address: port.mac_address.clone(),
            network_id: port.network_id,
            tag: tag_of(&request, port),
        })
        .collect();
    bundle.info_cache = Some(network_info(&request, &ports));
    bundle.block_devices = block_devices(world, context, &request).await?;
    // Hidden until the same commit shows it, because a retry after a crash replaces the records.
    let txn = history::action_started(CellTxn::new().import_bundle(bundle, true), context);
    let txn = history::succeeded(txn, context).hidden(context.server, false);
    let record = world.cell(&target.cell)?.instance(context.server).await;
    if !matches!(record, Ok(ref instance) if !instance.hidden) {
        world.cell(&target.cell)?.apply(fence, txn).await?;
    }
    Ok(())
}

/// Shows the server in its cell to users. The notification comes last, so that its reader finds the server there.
async fn publish_build(world: &World, context: &mut Create, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    world.api.publish_build(fence, context.server, world.cell_uuid(&target.cell)?).await?;
    history::notify(world, context, StepName::PublishBuild, InstanceAction::Create, Phase::End, &target).await;
    Ok(())
}

async fn block_devices(world: &World, context: &ServerFacts, request: &CreateRequest) -> Result<Vec<BlockDevice>, StepError> {
    let now = world.env.now();
    let attachments = if request.volumes.is_empty() { Vec::new() } else { world.volumes.attachments_of(context.server).await? };
    let local = (!context.volume_backed).then(|| BlockDevice {
        boot_index: Some(0),
        device_name: Some("/dev/vda".into()),
        source_type: "image".into(),
        image_id: request.request_spec.image_id,
        delete_on_termination: true,
        ..BlockDevice::local(context.derived_id("device:root"), context.server, now)
    });
    let volumes = request.volumes.iter().map(|volume| {
        let id = context.derived_id(&format!("attachment:{}", volume.volume_id));
        let info = attachments.iter().find(|attachment| attachment.id == id).map(|attachment| attachment.connection_info.clone());
        BlockDevice {
            boot_index: volume.boot_index,
            device_name: Some(volume.device_name.clone()),
            attachment_id: Some(id),
            connection_info: info,
            volume_size: volume.create_gb,
            delete_on_termination: volume.delete_on_termination,
            image_id: volume.image_id,
            tag: volume.tag.clone(),
            disk_bus: volume.shown_as.disk_bus.clone(),
            device_type: volume.shown_as.device_type.clone(),
            guest_format: volume.shown_as.guest_format.clone(),
            ..BlockDevice::volume(context.derived_id(&format!("device:{}", volume.volume_id)), context.server, volume.volume_id, now)
        }
    });
    Ok(local.into_iter().chain(volumes).collect())
}

fn network_info(request: &CreateRequest, ports: &[Port]) -> NetworkInfo {
    // In the order of the request, which is that of the guest's interfaces.
    let by_id: BTreeMap<_, _> = ports.iter().map(|port| (port.id, port)).collect();
    NetworkInfo(request.networks.iter().filter_map(|network| Some(vif_of(by_id.get(&network.port_id)?, network))).collect())
}

fn tag_of(request: &CreateRequest, port: &Port) -> Option<String> {
    request.networks.iter().find(|network| network.port_id == port.id).and_then(|network| network.tag.clone())
}
