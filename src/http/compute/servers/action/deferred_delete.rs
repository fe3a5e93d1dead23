//! `forceDelete` and `restore`. No delete is deferred here, as in Nova unless its `reclaim_instance_interval` is set: a forced one
//! is a delete like any other, and no server is ever SOFT_DELETED and could be restored.

use actix_web::http::StatusCode;

use super::Asked;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::servers::access::wrong_state;

/// As `DELETE /servers/{id}`, also for a server whose cell is down.
pub(super) async fn force_delete(asked: &Asked<'_>) -> Answer {
    asked.api.delete(asked.caller.clone(), asked.id, "os_compute_api:os-deferred-delete:force").await?;
    empty(StatusCode::ACCEPTED)
}

/// 409 for every server there is.
pub(super) async fn restore(asked: &Asked<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-deferred-delete:restore").await?;
    let instance = &located.instance;
    match instance.task_state {
        Some(task) => Err(wrong_state(instance, "restore", "task_state", task.as_str())),
        None => Err(wrong_state(instance, "restore", "vm_state", instance.vm_state.as_str())),
    }
}
