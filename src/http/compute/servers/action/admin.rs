//! Actions of operators: reset a server's state, and read its console, whose log no driver keeps yet.

use actix_web::http::StatusCode;

use super::{ActionRequest, lock};
use crate::db::cell::instance_change::InstanceChange;
use crate::domain::server::VmState;
use crate::http::compute::answer::{Answer, conflict, empty};
use crate::http::compute::servers::{access, schemas};
use crate::http::error::{ApiError, ErrorForm};

pub(super) async fn reset_state(asked: &ActionRequest<'_>) -> Answer {
    schemas::RESET_STATE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-admin-actions:reset_state").await?;
    // Its guest and its image are where the state says, and only an unshelve or a delete brings them together.
    if let shelved @ (VmState::Shelved | VmState::ShelvedOffloaded) = located.instance.vm_state {
        return Err(access::wrong_state(&located.instance, "reset state", "vm_state", shelved.as_str()));
    }
    let state = if asked.body["os-resetState"]["state"].as_str() == Some("active") { VmState::Active } else { VmState::Error };
    lock::record(asked, &located, "resetState", InstanceChange::states(state, None)).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn console_output(asked: &ActionRequest<'_>) -> Answer {
    schemas::CONSOLE_OUTPUT.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-console-output").await?;
    if located.instance.host.is_none() {
        return Err(conflict(format!("Instance {} is not ready", asked.id)));
    }
    let message = "Unable to get console log, functionality not implemented";
    Err(ApiError::new(ErrorForm::Compute, StatusCode::NOT_IMPLEMENTED, message))
}
