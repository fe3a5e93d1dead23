//! Lock and unlock: only administrators may act on a locked server.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::domain::instance_change::InstanceChange;
use crate::cell_registry::Located;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::servers::{access, schemas};

pub(super) async fn lock(asked: &ActionRequest<'_>) -> Answer {
    schemas::LOCK.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-lock-server:lock").await?;
    let reason = asked.body["lock"]["locked_reason"].as_str().filter(|_| asked.version.at_least(73)).map(str::to_owned);
    let by = role_of(asked, &located);
    // An owner's lock does not replace an administrator's lock.
    if by == "owner" && located.instance.locked_by.as_deref() == Some("admin") {
        return empty(StatusCode::ACCEPTED);
    }
    let change = InstanceChange {
        locked: Some(true),
        locked_by: Some(Some(by.to_owned())),
        locked_reason: Some(reason),
        ..InstanceChange::default()
    };
    asked.api.registry.change_instance_by(&located, asked.caller, "lock", change).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn unlock(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-lock-server:unlock").await?;
    let held_by = located.instance.locked_by.as_deref();
    if held_by.is_some_and(|held| held != role_of(asked, &located)) {
        let rule = "os_compute_api:os-lock-server:unlock:unlock_override";
        asked.api.policy.authorize(rule, asked.caller, &access::target(&located.instance))?;
    }
    let change = InstanceChange { locked: Some(false), locked_by: Some(None), locked_reason: Some(None), ..InstanceChange::default() };
    asked.api.registry.change_instance_by(&located, asked.caller, "unlock", change).await?;
    empty(StatusCode::ACCEPTED)
}

/// Returns the role in which the caller locks.
fn role_of(asked: &ActionRequest<'_>, located: &Located) -> &'static str {
    if asked.caller.project_id == located.instance.project_id { "owner" } else { "admin" }
}
