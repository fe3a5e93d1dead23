//! The traces of a saga for users and consumers: instance actions and events, faults, and notifications.

use uuid::Uuid;

use super::context::{Candidates, Part, Place};
use super::error::StepError;
use super::step_name::StepName;
use super::world::World;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::db::cell::actions::EventResult;
use crate::db::cell::notified::NotifiedInstance;
use crate::domain::action::ActionKey;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::fence::Fence;
use crate::domain::instance_fault::InstanceFault;
use crate::domain::notification::instance::{ExceptionPayload, InstanceFields, IpAddress};
use crate::domain::notification::{Event, InstanceAction, Notification, Phase};
use crate::domain::reason::Reason;

/// Returns the key of the operation's instance action.
pub fn key(context: &dyn Part) -> ActionKey {
    ActionKey { instance: context.server, request_id: context.caller.request_id.clone(), action: context.rules().action.to_owned() }
}

/// Adds the beginning of the operation's action and of its leading events.
pub fn action_started(txn: CellTxn, context: &dyn Part) -> CellTxn {
    let at = context.began_at();
    let txn = txn.action_started_at(key(context), context.caller.user_id.clone(), context.caller.project_id.clone(), at);
    context
        .leading_events()
        .into_iter()
        .fold(txn, |txn, (event, host)| txn.event_started_at(key(context), event.to_owned(), host.map(|place| place.host.clone()), at))
}

/// Adds the beginning of an event at a host.
pub fn event_started(txn: CellTxn, context: &dyn Part, event: &str, host: Option<&Place>) -> CellTxn {
    txn.event_started(key(context), event.to_owned(), host.map(|place| place.host.clone()))
}

/// Adds the successful end of an event at a host.
pub fn event_done(txn: CellTxn, context: &dyn Part, event: &str, host: Option<&Place>) -> CellTxn {
    txn.event_finished(key(context), event.to_owned(), host.map(|place| place.host.clone()), EventResult::Success)
}

/// Adds the successful end of the action and of its leading events. Open events end as failed: they belong to hosts that refused before
/// another took the server.
pub fn succeeded(txn: CellTxn, context: &dyn Part) -> CellTxn {
    leading_done(txn, context).action_ended(key(context), "The operation went on without it.".to_owned(), None)
}

/// Adds the successful end of the operation's leading events alone.
pub fn leading_done(txn: CellTxn, context: &dyn Part) -> CellTxn {
    context.leading_events().into_iter().fold(txn, |txn, (event, host)| event_done(txn, context, event, host))
}

/// Returns a failure's text for the server's owner: without internals, and without the names of hosts.
fn message_to_owner(context: &dyn Part, why: &Reason) -> String {
    let places = [&context.source, &context.target].into_iter().flatten().map(|place| place.host.as_str());
    let candidates = context.candidates().map(Candidates::hosts).unwrap_or_default();
    let mut hosts: Vec<&str> = places.chain(candidates).collect();
    // The longest first, because a name may begin with another.
    hosts.sort_unstable_by_key(|host| (std::cmp::Reverse(host.len()), *host));
    why.without_hosts(hosts)
}

/// Adds the failed end of the action and of its events, and a fault. The owner reads the reason in the message, administrators read all of
/// it in the details and in the events' tracebacks.
pub fn failed(txn: CellTxn, world: &World, context: &dyn Part) -> CellTxn {
    let why = context.error.clone().unwrap_or_else(|| "the operation was undone".into());
    let message = message_to_owner(context, &why);
    let fault = InstanceFault {
        instance_uuid: context.server,
        created_at: world.env.now(),
        code: 500,
        message: message.clone(),
        details: Some(format!("{} {} failed: {why}", context.kind, context.saga)),
        host: context.source.as_ref().map(|place| place.host.clone()),
    };
    let txn = context.leading_events().into_iter().fold(txn, |txn, (event, host)| {
        let result = EventResult::Error { details: message.clone(), traceback: Some(why.to_string()) };
        txn.event_finished(key(context), event.to_owned(), host.map(|place| place.host.clone()), result)
    });
    txn.action_ended(key(context), message, Some("Error".into())).fault(fault)
}

/// Notifies consumers of an event at a place. A notification that cannot be sent is logged and fails nothing.
pub async fn notify(world: &World, context: &dyn Part, step: StepName, action: InstanceAction, phase: Phase, place: &Place) {
    emit(world, context, step, Event::Instance(action, phase), place).await;
}

/// Commits changes in the place's cell, then notifies as [`notify`] does.
pub async fn apply_and_notify(
    world: &World,
    context: &dyn Part,
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

/// Notifies as [`notify`] does, of events that are no instance action.
pub async fn emit(world: &World, context: &dyn Part, step: StepName, event: Event, place: &Place) {
    tell(world, context, step, event, place, view(world, context, place).await).await;
}

async fn view(world: &World, context: &dyn Part, place: &Place) -> Result<NotifiedInstance, StepError> {
    Ok(world.cell(&place.cell)?.notified_instance(context.server).await?)
}

async fn tell(world: &World, context: &dyn Part, step: StepName, event: Event, place: &Place, view: Result<NotifiedInstance, StepError>) {
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

/// Notifies of the end of a queued delete: the operation that executed it, or the reason in `refused`.
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

fn fields(context: &dyn Part, view: NotifiedInstance) -> InstanceFields {
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
        fault: fault.map(|why| ExceptionPayload { exception: "MigrationError".to_owned(), exception_message: why.to_string() }),
        new_flavor: context.new_flavor.clone(),
    }
}
