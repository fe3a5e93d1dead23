//! Shelve, offload and unshelve.

use actix_web::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ActionRequest, resize};
use crate::cell_registry::Located;
use crate::db::DbError;
use crate::domain::instance::Instance;
use crate::domain::quota::CountedRoom;
use crate::domain::server::VmState;
use crate::domain::zone_request::ZoneRequest;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{Body, Lenient, nullable};
use crate::http::compute::servers::rules::server_name;
use crate::http::compute::servers::{access, quota};
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::saga::context::{Request, ShelveRequest, UnshelveRequest};

pub(super) static UNSHELVE: Body<Lenient<Unshelve>> = Body::within("unshelve", &[1, 77, 91]);

rules! {
    /// The zone to which the server goes. From 2.91 on null removes its pin.
    NewZone = json!({"versions": [[77, server_name()], [91, server_name_or_null()]]});
    /// The host to which the server goes.
    NewHost = json!({"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255});
}

fn server_name_or_null() -> Value {
    let mut name = server_name();
    name["type"] = json!(["string", "null"]);
    name
}

/// Older clients may send any value; it has no effect.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("type" = ["object", "null"], "anything_before" = 77))]
pub(super) struct Unshelve {
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "NewZone", extend("required_since" = 77, "required_until" = 91))]
    availability_zone: Option<Option<String>>,
    #[serde(default)]
    #[schemars(with = "NewHost", extend("since" = 91))]
    host: Option<String>,
}

pub(super) async fn shelve(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-shelve:shelve").await?;
    let request = ShelveRequest { offload: action.api.options.offloads_at_once };
    action.api.begin(action.caller, &located.instance, Request::Shelve(request)).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn offload(action: &ActionRequest<'_>) -> Answer {
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-shelve:shelve_offload").await?;
    action.api.begin(action.caller, &located.instance, Request::ShelveOffload).await?;
    empty(StatusCode::ACCEPTED)
}

pub(super) async fn unshelve(action: &ActionRequest<'_>) -> Answer {
    let Lenient(Unshelve { availability_zone, host }) = action.read(&UNSHELVE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, "os_compute_api:os-shelve:unshelve").await?;
    let instance = &located.instance;
    let host = host.filter(|_| action.version.at_least(91));
    if host.is_some() {
        let rule = "os_compute_api:os-shelve:unshelve_to_host";
        action.api.policy.authorize(rule, action.caller, &access::target(instance))?;
    }
    let mut request = UnshelveRequest { zone: zone_of(action.version, availability_zone), host, ..UnshelveRequest::default() };
    check_state(instance, &request)?;
    // Only a server without a host may leave its cell.
    request.cross_cell_allowed = instance.vm_state == VmState::ShelvedOffloaded && resize::may_leave_cell(action, instance);
    check_place(action, &located, &request).await?;
    if let Some(room) = room(action, instance).await? {
        request.user_limits = room.of_user.map(|own| own.limits).unwrap_or_default();
        request.limits = Some(room.limits);
    }
    action.api.begin(action.caller, instance, Request::Unshelve(Box::new(request))).await?;
    empty(StatusCode::ACCEPTED)
}

fn zone_of(version: ApiVersion, zone: Option<Option<String>>) -> ZoneRequest {
    match zone.filter(|_| version.at_least(77)) {
        None => ZoneRequest::AsBefore,
        Some(zone) => zone.map_or(ZoneRequest::Unpinned, ZoneRequest::In),
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
async fn check_place(action: &ActionRequest<'_>, located: &Located, request: &UnshelveRequest) -> Result<(), ApiError> {
    if !request.names_a_place() {
        return Ok(());
    }
    let api = action.api.registry.api();
    let memberships = api.memberships().await?;
    let default = &action.api.options.default_availability_zone;
    if let ZoneRequest::In(zone) = &request.zone
        && zone != default
        && !memberships.has_zone(zone)
    {
        return Err(bad_request("The requested availability zone is not available"));
    }
    let Some(host) = &request.host else { return Ok(()) };
    check_cell(action, located, host, request.cross_cell_allowed).await?;
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
async fn check_cell(action: &ActionRequest<'_>, located: &Located, host: &str, may_leave: bool) -> Result<(), ApiError> {
    match action.api.registry.cell_of_host(host).await? {
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
async fn room(action: &ActionRequest<'_>, instance: &Instance) -> Result<Option<CountedRoom>, ApiError> {
    if instance.vm_state != VmState::ShelvedOffloaded {
        return Ok(None);
    }
    quota::check_return(action.catalog, action.caller, instance).await
}
