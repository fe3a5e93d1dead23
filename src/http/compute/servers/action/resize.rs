//! Resize, cold migrate, confirm and revert.

use actix_web::http::StatusCode;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::instance_change::InstanceChange;
use crate::domain::server::VmState;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::create::request::id_of_reference;
use crate::http::compute::servers::{access, quota, schemas};
use crate::http::error::{ApiError, ErrorForm};
use crate::saga::context::{ConfirmRequest, Request, ResizeRequest};
use crate::saga::flavor_change;
use crate::services::ServiceError;

/// The policy rule that lets a move leave its cell.
const CROSS_CELL: &str = "compute:servers:resize:cross_cell";

pub(super) async fn resize(asked: &ActionRequest<'_>) -> Answer {
    schemas::RESIZE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:servers:resize").await?;
    check_state(&located.instance, "resize")?;
    let wanted = &asked.body["resize"];
    let flavor = asked.api.flavor_for(asked.caller, &id_of_reference(&wanted["flavorRef"])).await?;
    check_flavor(&located.instance, &flavor)?;
    quota::check_growth(asked.catalog, asked.caller, &located.instance, &flavor).await?;
    check_image_access(asked, &located.instance).await?;
    let cross_cell_allowed = may_leave_cell(asked, &located.instance);
    let request = Request::Resize(Box::new(ResizeRequest { flavor: Box::new(flavor), migrate: false, host: None, cross_cell_allowed }));
    asked.api.begin(asked.caller, &located.instance, request).await?;
    if let Some(mode) = wanted["OS-DCF:diskConfig"].as_str() {
        let change = InstanceChange { auto_disk_config: Some(mode == "AUTO"), ..InstanceChange::default() };
        asked.api.registry.change_instance(&located, change).await?;
    }
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn migrate(asked: &ActionRequest<'_>) -> Answer {
    schemas::MIGRATE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-migrate-server:migrate").await?;
    let host = asked.body["migrate"]["host"].as_str().filter(|_| asked.version.at_least(56)).map(str::to_owned);
    if host.is_some() {
        let rule = "os_compute_api:os-migrate-server:migrate:host";
        asked.api.policy.authorize(rule, asked.caller, &access::target(&located.instance))?;
    }
    check_state(&located.instance, "migrate")?;
    let may_leave = may_leave_cell(asked, &located.instance);
    if let Some(host) = &host {
        check_host(asked, &located, host, may_leave).await?;
    }
    let flavor = Box::new(located.instance.flavor.clone());
    let request = Request::Resize(Box::new(ResizeRequest { flavor, migrate: true, host, cross_cell_allowed: may_leave }));
    asked.api.begin(asked.caller, &located.instance, request).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn confirm(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:servers:confirm_resize").await?;
    asked.api.begin(asked.caller, &located.instance, Request::Confirm(ConfirmRequest::default())).await?;
    empty(StatusCode::NO_CONTENT)
}

pub(super) async fn revert(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:servers:revert_resize").await?;
    let instance = &located.instance;
    // A revert of a shrinking resize makes the server grow.
    if let (VmState::Resized, Some(old)) = (instance.vm_state, &instance.old_flavor) {
        quota::check_regrowth(asked.catalog, asked.caller, instance, old).await?;
    }
    asked.api.begin(asked.caller, &located.instance, Request::Revert).await?;
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
async fn check_image_access(asked: &ActionRequest<'_>, instance: &Instance) -> Result<(), ApiError> {
    let Ok(id) = uuid::Uuid::parse_str(&instance.image_ref) else { return Ok(()) };
    match asked.api.images.image(id).await {
        Ok(image) if image.is_visible_to(asked.caller) => Ok(()),
        Ok(_) => {
            let message = "You are not authorized to access the image the instance was started with.";
            Err(ApiError::new(ErrorForm::Compute, StatusCode::UNAUTHORIZED, message))
        }
        Err(ServiceError::NotFound(_)) => Ok(()),
        Err(error) => Err(service_error(error)),
    }
}

/// True if policy lets the server leave its cell.
pub(super) fn may_leave_cell(asked: &ActionRequest<'_>, instance: &Instance) -> bool {
    asked.api.policy.check(CROSS_CELL, asked.caller, &access::target(instance))
}

/// Checks the target host. A host in a cell that the server may not go to is reported as unknown.
async fn check_host(asked: &ActionRequest<'_>, located: &Located, host: &str, may_leave: bool) -> Result<(), ApiError> {
    let unknown = || bad_request(format!("Compute host {host} could not be found."));
    if located.instance.host.as_deref() == Some(host) {
        let uuid = located.instance.uuid;
        return Err(bad_request(format!("Unable to migrate instance ({uuid}) to current host ({host}).")));
    }
    let cell = asked.api.registry.cell_of_host(host).await?.ok_or_else(unknown)?;
    if may_leave || located.cell.as_ref() == Some(&cell) { Ok(()) } else { Err(unknown()) }
}
