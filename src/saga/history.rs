//! What a saga tells the world of itself: instance actions and events, faults, and notifications.

use uuid::Uuid;

use super::context::{Context, Kind, Place, Request};
use super::error::StepError;
use super::step_name::StepName;
use super::world::World;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::db::cell::actions::{ActionKey, EventResult};
use crate::db::cell::faults::Fault;
use crate::db::cell::notified::NotifiedInstance;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::fence::Fence;
use crate::domain::inside;
use crate::domain::notification::instance::{Fault as FaultPayload, InstanceFields, IpAddress};
use crate::domain::notification::{Event, InstanceAction, Notification, Phase};

/// The action that this operation is recorded under.
pub fn key(context: &Context) -> ActionKey {
    ActionKey { instance: context.server, request_id: context.caller.request_id.clone(), action: context.action().to_owned() }
}

/// Adds the beginning of the operation's action and of its leading events.
pub fn action_started(txn: CellTxn, context: &Context) -> CellTxn {
    // A new server is asked for long before the cell that tells of it is chosen.
    let at = match &context.request {
        Request::Create(create) => Some(create.instance.instance.created_at),
        _ => None,
    };
    let txn = txn.action_started_at(key(context), context.caller.user_id.clone(), context.caller.project_id.clone(), at);
    leading_events(context)
        .into_iter()
        .fold(txn, |txn, (event, host)| txn.event_started_at(key(context), event.to_owned(), host.map(|place| place.host.clone()), at))
}

/// The events under which users find how an operation ended, in Nova's names and order: the conductor's, then the host's.
fn leading_events(context: &Context) -> Vec<(&'static str, Option<&Place>)> {
    let (here, crosses) = (context.here(), context.crosses_cells());
    match context.kind {
        Kind::Resize => vec![("conductor_migrate_server", None), ("cold_migrate", None)],
        Kind::Confirm if crosses => vec![("conductor_confirm_snapshot_based_resize", None)],
        Kind::Confirm => vec![("compute_confirm_resize", context.source.as_ref())],
        Kind::Revert if crosses => vec![("conductor_revert_snapshot_based_resize", None)],
        Kind::Revert => vec![("compute_revert_resize", context.target.as_ref())],
        Kind::Create if here.is_none() => vec![("conductor_schedule_and_build_instances", None)],
        Kind::Create => vec![("compute__do_build_and_run_instance", here)],
        Kind::Delete => vec![("compute_terminate_instance", here)],
        Kind::Start => vec![("compute_start_instance", here)],
        Kind::Stop => vec![("compute_stop_instance", here)],
        Kind::Reboot => vec![("compute_reboot_instance", here)],
        Kind::Rebuild => vec![("rebuild_server", None), ("compute_rebuild_instance", here)],
        Kind::AttachVolume => vec![("compute_attach_volume", here)],
        Kind::DetachVolume => vec![("compute_detach_volume", here)],
    }
}

/// Adds the beginning of an event at a host.
pub fn event_started(txn: CellTxn, context: &Context, event: &str, host: Option<&Place>) -> CellTxn {
    txn.event_started(key(context), event.to_owned(), host.map(|place| place.host.clone()))
}

/// Adds the successful end of an event at a host.
pub fn event_done(txn: CellTxn, context: &Context, event: &str, host: Option<&Place>) -> CellTxn {
    txn.event_finished(key(context), event.to_owned(), host.map(|place| place.host.clone()), EventResult::Success)
}

/// Adds the successful end of the action and of its leading events. An event still open was given up on the way: a host that
/// refused before another one took the server.
pub fn succeeded(txn: CellTxn, context: &Context) -> CellTxn {
    let txn = leading_done(txn, context);
    txn.open_events_failed(key(context), "The operation went on without it.".to_owned()).action_finished(key(context), None)
}

/// Adds the successful end of the operation's leading events alone.
pub fn leading_done(txn: CellTxn, context: &Context) -> CellTxn {
    leading_events(context).into_iter().fold(txn, |txn, (event, host)| event_done(txn, context, event, host))
}

/// The text of a failure for the server's owner: nothing of the inside, and no host that the operation had to do with.
fn told_to_owner(context: &Context, why: &str) -> String {
    let places = [&context.source, &context.target].into_iter().flatten().map(|place| place.host.as_str());
    let candidates = context.alternates.iter().map(|candidate| candidate.host.as_str());
    let refused = context.refusals.iter().map(|(host, _)| host.as_str());
    let mut hosts: Vec<&str> = places.chain(candidates).chain(refused).collect();
    // The longest first: one name may begin another.
    hosts.sort_unstable_by_key(|host| (std::cmp::Reverse(host.len()), *host));
    inside::cut_of_hosts(why, hosts)
}

/// Adds the failed end of the action and of all its events, with a fault that says why: to the owner in its message, to
/// administrators wholly in its details and in the events' tracebacks.
pub fn failed(txn: CellTxn, world: &World, context: &Context) -> CellTxn {
    let why = context.error.clone().unwrap_or_else(|| "the operation was undone".into());
    let told = told_to_owner(context, &why);
    let fault = Fault {
        instance_uuid: context.server,
        created_at: world.env.now(),
        code: 500,
        message: told.clone(),
        details: Some(format!("{} {} failed: {}", context.kind, context.saga, inside::opened(&why))),
        host: context.source.as_ref().map(|place| place.host.clone()),
    };
    let txn = leading_events(context).into_iter().fold(txn, |txn, (event, host)| {
        let result = EventResult::Error { details: told.clone(), traceback: Some(inside::opened(&why)) };
        txn.event_finished(key(context), event.to_owned(), host.map(|place| place.host.clone()), result)
    });
    txn.open_events_failed(key(context), told).fault(fault).action_finished(key(context), Some("Error".into()))
}

/// Tells consumers what happens to the server at a place. A notification that cannot be sent is logged: it must not fail
/// what it speaks of.
pub async fn notify(world: &World, context: &Context, step: StepName, action: InstanceAction, phase: Phase, place: &Place) {
    emit(world, context, step, Event::Instance(action, phase), place).await;
}

/// Commits changes in the place's cell and then tells what happens to the server there, as [`notify`] does.
pub async fn apply_and_notify(
    world: &World,
    context: &Context,
    fence: Fence,
    txn: CellTxn,
    (step, action, phase): (StepName, InstanceAction, Phase),
    place: &Place,
) -> Result<(), StepError> {
    let view = world.cell(&place.cell)?.apply_and_view(fence, txn, context.server).await?;
    let missing = || DbError::NotFound(format!("Instance {}", context.server)).into();
    tell(world, context, step, Event::Instance(action, phase), place, view.ok_or_else(missing)).await;
    Ok(())
}

/// As [`notify`], for events that are no instance action.
pub async fn emit(world: &World, context: &Context, step: StepName, event: Event, place: &Place) {
    tell(world, context, step, event, place, view(world, context, place).await).await;
}

async fn view(world: &World, context: &Context, place: &Place) -> Result<NotifiedInstance, StepError> {
    Ok(world.cell(&place.cell)?.notified_instance(context.server).await?)
}

async fn tell(world: &World, context: &Context, step: StepName, event: Event, place: &Place, view: Result<NotifiedInstance, StepError>) {
    let fields = match view {
        Ok(view) => fields(context, view),
        Err(error) => {
            log::warn!(server:% = context.server, migration:% = context.saga; "{} carries no server fields: {error}", event.event_type());
            return;
        }
    };
    let notification = Notification {
        operation: context.saga,
        step: step.to_string(),
        event,
        publisher_id: format!("nova-compute:{}", place.host),
        payload: event.payload(context.server, fields.data()),
    };
    if let Err(error) = world.notifications.emit(notification).await {
        log::warn!(server:% = context.server, migration:% = context.saga; "a notification was not recorded: {error}");
    }
}

/// Tells what became of a delete that had to wait: the operation that carried it out, or `refused` and why.
pub async fn queued_delete(world: &World, operation: Uuid, server: Uuid, request: &DeleteRequest, refused: Option<&str>) {
    let event = Event::QueuedDelete(if refused.is_some() { Phase::Error } else { Phase::End });
    let data = serde_json::json!({
        "uuid": server,
        "request_id": request.caller.request_id,
        "action_initiator_user": request.caller.user_id,
        "action_initiator_project": request.caller.project_id,
        "asked_at": request.asked_at,
        "attempts": request.attempts,
        "reason": refused,
    });
    let notification = Notification {
        operation,
        step: "queued_delete".to_owned(),
        event,
        publisher_id: "nova-conductor:queued-deletes".to_owned(),
        payload: event.payload(server, data),
    };
    if let Err(error) = world.notifications.emit(notification).await {
        log::warn!(server:% = server; "a notification was not recorded: {error}");
    }
}

fn fields(context: &Context, view: NotifiedInstance) -> InstanceFields {
    let (instance, fault) = (view.instance, context.error.as_ref());
    let addresses = view.network_info.0.iter().flat_map(|vif| {
        vif.fixed_ips.iter().map(|ip| IpAddress {
            label: vif.network_name.clone(),
            mac: vif.mac_address.clone(),
            address: ip.address.clone(),
            version: i32::from(ip.version()) as u8,
            port_id: vif.port_id,
            device_name: None,
        })
    });
    InstanceFields {
        uuid: instance.uuid,
        user_id: instance.user_id,
        tenant_id: instance.project_id,
        display_name: instance.display_name,
        display_description: instance.display_description,
        host_name: instance.hostname,
        host: instance.host,
        node: instance.node,
        availability_zone: instance.availability_zone,
        flavor: instance.flavor,
        image_uuid: uuid::Uuid::parse_str(&instance.image_ref).ok(),
        key_name: instance.key_name,
        created_at: Some(instance.created_at),
        launched_at: instance.launched_at,
        terminated_at: instance.terminated_at,
        deleted_at: instance.deleted_at,
        updated_at: instance.updated_at,
        state: instance.vm_state,
        task_state: instance.task_state,
        power_state: instance.power_state,
        progress: instance.progress,
        locked: instance.locked,
        locked_reason: instance.locked_reason,
        metadata: view.metadata,
        ip_addresses: addresses.collect(),
        block_devices: Vec::new(),
        auto_disk_config: instance.auto_disk_config,
        request_id: Some(context.caller.request_id.clone()),
        action_initiator_user: Some(context.caller.user_id.clone()),
        action_initiator_project: Some(context.caller.project_id.clone()),
        fault: fault.map(|why| FaultPayload { exception: "MigrationError".to_owned(), exception_message: inside::opened(why) }),
        new_flavor: context.new_flavor.clone(),
    }
}
