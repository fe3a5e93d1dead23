//! Resize, cold migrate, confirm and revert.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::instance_change::InstanceChange;
use crate::domain::server::VmState;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::body::rules::HostOrNull;
use crate::http::compute::body::{ALWAYS, Body, Lenient};
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::create::request::id_of_reference;
use crate::http::compute::servers::rules::{DiskConfig, FlavorReference};
use crate::http::compute::servers::{access, quota};
use crate::http::error::{ApiError, ErrorForm};
use crate::saga::context::{ConfirmRequest, Request, ResizeRequest};
use crate::saga::flavor_change;
use crate::services::ServiceError;

/// The policy rule that lets a move leave its cell.
const CROSS_CELL: &str = "compute:servers:resize:cross_cell";

pub(super) static RESIZE: Body<Resize> = Body::within("resize", ALWAYS);
pub(super) static MIGRATE: Body<Lenient<Migration>> = Body::within("migrate", &[1, 56]);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resize {
    #[serde(rename = "flavorRef")]
    #[schemars(with = "FlavorReference")]
    flavor: Value,
    #[serde(default, rename = "OS-DCF:diskConfig")]
    #[schemars(with = "DiskConfig")]
    disk_config: Option<String>,
}

/// Older clients may send any value; it has no effect.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("type" = ["object", "null"], "anything_before" = 56))]
pub(super) struct Migration {
    #[serde(default)]
    #[schemars(with = "HostOrNull")]
    host: Option<String>,
}

pub(super) async fn resize(action: &ActionRequest<'_>) -> Answer {
    let Resize { flavor, disk_config } = action.read(&RESIZE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:servers:resize").await?;
    check_state(&located.instance, "resize")?;
    let flavor = action.api.flavor_for(action.caller, &id_of_reference(&flavor)).await?;
    check_flavor(&located.instance, &flavor)?;
    quota::check_growth(action.catalog, action.caller, &located.instance, &flavor).await?;
    check_image_access(action, &located.instance).await?;
    let cross_cell_allowed = may_leave_cell(action, &located.instance);
    let request = Request::Resize(Box::new(ResizeRequest { flavor: Box::new(flavor), migrate: false, host: None, cross_cell_allowed }));
    action.api.begin(action.caller, &located.instance, request).await?;
    if let Some(mode) = disk_config {
        let change = InstanceChange { auto_disk_config: Some(mode == "AUTO"), ..InstanceChange::default() };
        action.api.registry.change_instance(&located, change).await?;
    }
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn migrate(action: &ActionRequest<'_>) -> Answer {
    let Lenient(Migration { host }) = action.read(&MIGRATE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-migrate-server:migrate").await?;
    let host = host.filter(|_| action.version.at_least(56));
    if host.is_some() {
        let rule = "os_compute_api:os-migrate-server:migrate:host";
        action.api.policy.authorize(rule, action.caller, &access::target(&located.instance))?;
    }
    check_state(&located.instance, "migrate")?;
    let may_leave = may_leave_cell(action, &located.instance);
    if let Some(host) = &host {
        check_host(action, &located, host, may_leave).await?;
    }
    let flavor = Box::new(located.instance.flavor.clone());
    let request = Request::Resize(Box::new(ResizeRequest { flavor, migrate: true, host, cross_cell_allowed: may_leave }));
    action.api.begin(action.caller, &located.instance, request).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn confirm(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:servers:confirm_resize").await?;
    action.api.begin(action.caller, &located.instance, Request::Confirm(ConfirmRequest::default())).await?;
    empty(StatusCode::NO_CONTENT)
}

pub(super) async fn revert(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:servers:revert_resize").await?;
    let instance = &located.instance;
    // A revert of a shrinking resize makes the server grow.
    if let (VmState::Resized, Some(old)) = (instance.vm_state, &instance.old_flavor) {
        quota::check_regrowth(action.catalog, action.caller, instance, old).await?;
    }
    action.api.begin(action.caller, &located.instance, Request::Revert).await?;
    empty(StatusCode::ACCEPTED)
}

/// Checks the state before the rest of the request. The operation checks it again when it takes the server.
fn check_state(instance: &Instance, action: &str) -> Result<(), ApiError> {
    access::require_no_task(instance, action)?;
    match instance.vm_state {
        VmState::Active | VmState::Stopped if instance.host.is_none() => Err(conflict(format!("Instance {} is not ready", instance.uuid))),
        VmState::Active | VmState::Stopped => Ok(()),
        other => Err(access::wrong_state(instance, action, "vm_state", other.as_str())),
    }
}

fn check_flavor(instance: &Instance, flavor: &Flavor) -> Result<(), ApiError> {
    flavor_change::objection(instance, flavor).map_or(Ok(()), |why| Err(bad_request(why)))
}

/// Answers 401 if the image exists but the caller may no longer use it. A deleted image is no obstacle, because a move carries the disk.
async fn check_image_access(action: &ActionRequest<'_>, instance: &Instance) -> Result<(), ApiError> {
    let Ok(id) = uuid::Uuid::parse_str(&instance.image_ref) else { return Ok(()) };
    match action.api.images.image(id).await {
        Ok(image) if image.is_visible_to(action.caller) => Ok(()),
        Ok(_) => {
            let message = "You are not authorized to access the image the instance was started with.";
            Err(ApiError::new(ErrorForm::Compute, StatusCode::UNAUTHORIZED, message))
        }
        Err(ServiceError::NotFound(_)) => Ok(()),
        Err(error) => Err(service_error(error)),
    }
}

/// True if policy lets the server leave its cell.
pub(super) fn may_leave_cell(action: &ActionRequest<'_>, instance: &Instance) -> bool {
    action.api.policy.check(CROSS_CELL, action.caller, &access::target(instance))
}

/// Checks the target host. A host in a cell that the server may not go to is reported as unknown.
async fn check_host(action: &ActionRequest<'_>, located: &Located, host: &str, may_leave: bool) -> Result<(), ApiError> {
    let unknown = || bad_request(format!("Compute host {host} could not be found."));
    if located.instance.host.as_deref() == Some(host) {
        let uuid = located.instance.uuid;
        return Err(bad_request(format!("Unable to migrate instance ({uuid}) to current host ({host}).")));
    }
    let cell = action.api.registry.cell_of_host(host).await?.ok_or_else(unknown)?;
    if may_leave || located.cell.as_ref() == Some(&cell) { Ok(()) } else { Err(unknown()) }
}
