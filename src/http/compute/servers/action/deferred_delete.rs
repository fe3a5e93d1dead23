//! `forceDelete` and `restore`, for servers that were soft-deleted because the cloud has a `reclaim_instance_interval`. A forced delete
//! deletes any server for good.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::domain::server::VmState;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::servers::access::{require_no_task, wrong_state};
use crate::http::compute::servers::quota;
use crate::saga::context::Request;

/// Deletes for good, even if the server's cell is down.
pub(super) async fn force_delete(action: &ActionRequest<'_>) -> Answer {
    action.api.delete(action.caller.clone(), action.id, "os_compute_api:os-deferred-delete:force", false).await?;
    empty(StatusCode::ACCEPTED)
}

/// Starts a soft-deleted server again, if its project still has room for it.
pub(super) async fn restore(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-deferred-delete:restore").await?;
    let instance = &located.instance;
    require_no_task(instance, "restore")?;
    if instance.vm_state != VmState::SoftDeleted {
        return Err(wrong_state(instance, "restore", "vm_state", instance.vm_state.as_str()));
    }
    quota::check_restore(action.catalog, action.caller, instance).await?;
    action.api.begin(action.caller, instance, Request::Restore).await?;
    empty(StatusCode::ACCEPTED)
}
