//! Lock and unlock: only administrators may act on a locked server.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::domain::instance_change::InstanceChange;
use crate::http::compute::answer::{Answer, empty};
use crate::http::compute::body::rules::Word;
use crate::http::compute::body::{Body, Lenient};
use crate::http::compute::servers::access;

pub(super) static LOCK: Body<Lenient<Lock>> = Body::within("lock", &[1, 73]);

/// Older clients may send any value; it has no effect.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("type" = ["object", "null"], "anything_before" = 73))]
pub(super) struct Lock {
    #[serde(default)]
    #[schemars(with = "Word")]
    locked_reason: Option<String>,
}

pub(super) async fn lock(action: &ActionRequest<'_>) -> Answer {
    let Lenient(Lock { locked_reason }) = action.read(&LOCK).await?;
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:os-lock-server:lock").await?;
    let reason = locked_reason.filter(|_| action.version.at_least(73));
    let by = role_of(action, &located);
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
    action.api.registry.change_instance_by(&located, action.caller, "lock", change).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn unlock(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:os-lock-server:unlock").await?;
    let held_by = located.instance.locked_by.as_deref();
    if held_by.is_some_and(|held| held != role_of(action, &located)) {
        let rule = "os_compute_api:os-lock-server:unlock:unlock_override";
        action.api.policy.authorize(rule, action.caller, &access::target(&located.instance))?;
    }
    let change = InstanceChange { locked: Some(false), locked_by: Some(None), locked_reason: Some(None), ..InstanceChange::default() };
    action.api.registry.change_instance_by(&located, action.caller, "unlock", change).await?;
    empty(StatusCode::ACCEPTED)
}

/// Returns the role in which the caller locks.
fn role_of(action: &ActionRequest<'_>, located: &Located) -> &'static str {
    if action.caller.project_id == located.instance.project_id { "owner" } else { "admin" }
}
