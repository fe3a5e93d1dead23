//! Shelve, offload and unshelve.

use actix_web::http::StatusCode;
use serde_json::Value;

use super::{ActionRequest, resize};
use crate::cell_registry::Located;
use crate::db::DbError;
use crate::domain::instance::Instance;
use crate::domain::quota::CountedRoom;
use crate::domain::server::VmState;
use crate::domain::wanted_zone::WantedZone;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::servers::{access, quota, schemas};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::saga::context::{Request, ShelveRequest, UnshelveRequest};

pub(super) async fn shelve(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-shelve:shelve").await?;
    let request = ShelveRequest { offload: asked.api.options.offloads_at_once };
    asked.api.begin(asked.caller, &located.instance, Request::Shelve(request)).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn offload(asked: &ActionRequest<'_>) -> Answer {
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-shelve:shelve_offload").await?;
    asked.api.begin(asked.caller, &located.instance, Request::ShelveOffload).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn unshelve(asked: &ActionRequest<'_>) -> Answer {
    schemas::UNSHELVE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_unlocked(asked.caller, asked.id, "os_compute_api:os-shelve:unshelve").await?;
    let instance = &located.instance;
    let wanted = &asked.body["unshelve"];
    let host = wanted["host"].as_str().filter(|_| asked.version.at_least(91)).map(str::to_owned);
    if host.is_some() {
        let rule = "os_compute_api:os-shelve:unshelve_to_host";
        asked.api.policy.authorize(rule, asked.caller, &access::target(instance))?;
    }
    let mut request = UnshelveRequest { zone: zone_of(asked.version, wanted), host, ..UnshelveRequest::default() };
    check_state(instance, &request)?;
    // Only a server without a host may leave its cell.
    request.cross_cell_allowed = instance.vm_state == VmState::ShelvedOffloaded && resize::may_leave_cell(asked, instance);
    check_place(asked, &located, &request).await?;
    if let Some(room) = room(asked, instance).await? {
        request.user_limits = room.of_user.map(|own| own.limits).unwrap_or_default();
        request.limits = Some(room.limits);
    }
    asked.api.begin(asked.caller, instance, Request::Unshelve(Box::new(request))).await?;
    empty(StatusCode::ACCEPTED)
}

fn zone_of(version: ApiVersion, wanted: &Value) -> WantedZone {
    match wanted.get("availability_zone").filter(|_| version.at_least(77)) {
        None => WantedZone::AsBefore,
        Some(zone) => zone.as_str().map_or(WantedZone::Unpinned, |zone| WantedZone::In(zone.to_owned())),
    }
}

/// Checks the state before the rest of the request. The operation checks it again when it takes the server.
fn check_state(instance: &Instance, request: &UnshelveRequest) -> Result<(), ApiError> {
    access::require_no_task(instance, "unshelve")?;
    match instance.vm_state {
        VmState::ShelvedOffloaded => Ok(()),
        VmState::Shelved if !request.names_a_place() => Ok(()),
        VmState::Shelved => Err(conflict(format!(
            "Specifying an availability zone or a host when unshelving server \"{}\" with status \"{}\" is not supported",
            instance.uuid, instance.vm_state
        ))),
        other => Err(access::wrong_state(instance, "unshelve", "vm_state", other.as_str())),
    }
}

/// Checks that the named zone exists, and that the named host is in the server's cell and in the zone that the server will be tied to.
async fn check_place(asked: &ActionRequest<'_>, located: &Located, request: &UnshelveRequest) -> Result<(), ApiError> {
    if !request.names_a_place() {
        return Ok(());
    }
    let api = asked.api.registry.api();
    let memberships = api.memberships().await?;
    let default = &asked.api.options.default_availability_zone;
    if let WantedZone::In(zone) = &request.zone
        && zone != default
        && !memberships.has_zone(zone)
    {
        return Err(bad_request("The requested availability zone is not available"));
    }
    let Some(host) = &request.host else { return Ok(()) };
    check_cell(asked, located, host, request.cross_cell_allowed).await?;
    let before = match api.request_spec(located.instance.uuid).await {
        Err(DbError::NotFound(_)) => None,
        spec => spec?.availability_zone,
    };
    let its_zone = memberships.zone_of(host).unwrap_or(default);
    match request.zone.over(before.as_deref()) {
        Some(zone) if zone != its_zone => Err(conflict(format!("Host \"{host}\" is not in the availability zone \"{zone}\"."))),
        _ => Ok(()),
    }
}

/// Refuses a host of another cell, unless the server may leave its own.
async fn check_cell(asked: &ActionRequest<'_>, located: &Located, host: &str, may_leave: bool) -> Result<(), ApiError> {
    match asked.api.registry.cell_of_host(host).await? {
        Some(cell) if may_leave || located.cell.as_ref() == Some(&cell) => Ok(()),
        // A member may not learn of the hosts of other cells; who names a host is an operator.
        Some(_) => Err(bad_request(format!(
            "Compute host {host} could not be found in the server's cell: the policy compute:servers:resize:cross_cell does not let this \
             server leave its cell."
        ))),
        None => Err(bad_request(format!("Compute host {host} could not be found."))),
    }
}

/// Checks the room that a server's project and user have for it when it gets a host again.
async fn room(asked: &ActionRequest<'_>, instance: &Instance) -> Result<Option<CountedRoom>, ApiError> {
    if instance.vm_state != VmState::ShelvedOffloaded {
        return Ok(None);
    }
    quota::check_return(asked.catalog, asked.caller, instance).await
}
