//! `forceDelete` and `restore`. Deletes are never deferred, as in Nova without `reclaim_instance_interval`: a forced delete is an ordinary
//! delete, and no server is SOFT_DELETED, so none can be restored.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::servers::access::wrong_state;

/// Deletes as `DELETE /servers/{id}` does, even if the server's cell is down.
pub(super) async fn force_delete(asked: &ActionRequest<'_>) -> Answer {
    asked.api.delete(asked.caller.clone(), asked.id, "os_compute_api:os-deferred-delete:force").await?;
    empty(StatusCode::ACCEPTED)
}

/// Answers 409 for every existing server.
pub(super) async fn restore(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-deferred-delete:restore").await?;
    let instance = &located.instance;
    match instance.task_state {
        Some(task) => Err(wrong_state(instance, "restore", "task_state", task.as_str())),
        None => Err(wrong_state(instance, "restore", "vm_state", instance.vm_state.as_str())),
    }
}
