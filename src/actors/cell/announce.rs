//! Notifications that a cell goes down and comes back.

use super::{CellHandle, CellStanding, HealthReport};
use crate::domain::notification::{Event, Notification};
use crate::saga::notifications::Notifications;

/// Emits that the cell went down or came back, unless that has been emitted.
pub(super) async fn announce(handle: &CellHandle, notifications: &dyn Notifications) {
    let Some(HealthReport { standing, since, reason }) = handle.health.unannounced() else { return };
    let (event, state) = if standing == CellStanding::Up { (Event::CellUp, "up") } else { (Event::CellDown, "down") };
    let fields = serde_json::json!({"uuid": handle.uuid, "name": handle.name, "state": state, "since": since, "reason": reason});
    let notification = Notification {
        operation: handle.uuid,
        // One notification per change: the time of the change distinguishes them.
        step: since.to_rfc3339(),
        event,
        publisher_id: format!("nova-conductor:{}", handle.name),
        payload: event.payload(handle.uuid, fields),
    };
    match notifications.emit(notification).await {
        Ok(_) => handle.health.announced(since),
        Err(error) => log::warn!(cell = handle.name.as_str(); "nobody is told that the cell is {state}: {error}"),
    }
}
