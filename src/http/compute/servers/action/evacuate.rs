//! Evacuate: another host builds a server whose host is down.

use actix_web::HttpResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::ActionRequest;
use crate::cell_registry::{Located, ServerRecord};
use crate::domain::config_drive::ConfigDrive;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::secret::{Sealed, Secret};
use crate::env::guard::{Guard, stands};
use crate::http::compute::answer::{Answer, bad_request, conflict, not_found};
use crate::http::compute::body::rules::HostName;
use crate::http::compute::body::{Body, Flag, SecretText};
use crate::http::compute::servers::create::password;
use crate::http::compute::servers::{access, quota};
use crate::http::error::ApiError;
use crate::saga::context::{EvacuateRequest, Request};

const RULE: &str = "os_compute_api:os-evacuate";

pub(super) static EVACUATE: Body<Evacuation> = Body::within("evacuate", &[1, 14, 29, 68]);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Evacuation {
    #[serde(default)]
    #[schemars(with = "HostName")]
    host: Option<String>,
    #[serde(default, rename = "adminPass")]
    #[schemars(with = "String")]
    admin_pass: Option<SecretText>,
    #[serde(default, rename = "onSharedStorage")]
    #[schemars(extend("until" = 14, "required_since" = 1))]
    on_shared_storage: Flag,
    #[serde(default)]
    #[schemars(extend("since" = 29, "until" = 68))]
    force: Flag,
}

pub(super) async fn evacuate(action: &ActionRequest<'_>) -> Answer {
    let Evacuation { host, admin_pass, on_shared_storage, force: Flag(forced) } = action.read(&EVACUATE).await?;
    let located = action.api.locate_unlocked(action.caller, action.id, RULE).await?;
    check_host(action, &located, host.as_deref(), forced).await?;
    if located.instance.host.is_none() {
        return Err(conflict(format!("Instance {} is not ready", located.instance.uuid)));
    }
    let before = action.api.load(action.caller, action.id, RULE).await?;
    // The operation checks the host again. A refusal here leaves no trace in the server's history. A server with a task is refused only
    // here: while its host is down, the evacuation cancels the task's operation, which could only wait for the host.
    if stands(Guard::EvacuatedHostDown) && action.api.registry.host_is_up(&before).await {
        access::require_no_task(&located.instance, "evacuate")?;
        let host = before.instance.host.as_deref().unwrap_or_default();
        return Err(bad_request(format!("Compute service of {host} is still in use.")));
    }
    check_storage(&before, on_shared_storage.0)?;
    let admin_pass = admin_pass.map_or_else(|| Secret::new(password(action.api.env.uuid())), |text| text.0);
    let sealed = sealed(action, &admin_pass);
    quota::check_first_boot(&before.metadata, &sealed)?;
    let request = EvacuateRequest {
        // Below 2.29 the named host is taken as it is.
        bypasses_scheduler: host.is_some() && (forced || !action.version.at_least(29)),
        forced,
        stays_off: action.version.at_least(95),
        image_id: image_of(&before)?,
        config_drive: config_drive(&before),
        sealed: Some(sealed),
        host,
    };
    action.api.begin(action.caller, &located.instance, Request::Evacuate(Box::new(request))).await?;
    if !action.version.at_least(14) && action.api.options.enable_instance_password {
        return Ok(HttpResponse::Ok().json(json!({"adminPass": admin_pass.expose()})));
    }
    Ok(HttpResponse::Ok().finish())
}

/// Checks the demanded host: it must exist, be another one, and lie in the server's cell.
async fn check_host(action: &ActionRequest<'_>, located: &Located, host: Option<&str>, forced: bool) -> Result<(), ApiError> {
    let Some(host) = host else {
        return if forced { Err(bad_request("Can't force to a non-provided destination")) } else { Ok(()) };
    };
    let cell = action.api.registry.cell_of_host(host).await?.ok_or_else(|| not_found(format!("Compute host {host} not found.")))?;
    if located.instance.host.as_deref() == Some(host) {
        return Err(bad_request("The target host can't be the same one."));
    }
    if located.cell.as_ref() != Some(&cell) {
        return Err(bad_request(format!("Compute host {host} is in another cell, and an evacuation stays in its server's cell.")));
    }
    Ok(())
}

/// Refuses the word of an older client that the disks survive on shared storage: hosts here share none.
fn check_storage(server: &ServerRecord, shared: bool) -> Result<(), ApiError> {
    if shared && !server.instance.is_volume_backed() {
        return Err(bad_request("The disks of the server are not on shared storage: onSharedStorage must be false."));
    }
    Ok(())
}

/// Returns the image of the root disk; none if that is a volume.
fn image_of(server: &ServerRecord) -> Result<Option<Uuid>, ApiError> {
    if server.instance.is_volume_backed() {
        return Ok(None);
    }
    let id = Uuid::parse_str(&server.instance.image_ref);
    id.map(Some).map_err(|_| conflict(format!("Instance {} has no image to build it from", server.instance.uuid)))
}

fn sealed(action: &ActionRequest<'_>, admin_pass: &Secret<String>) -> Sealed {
    let secrets = GuestSecrets { admin_pass: Some(admin_pass.clone()), ..GuestSecrets::default() };
    secrets.sealed(|bytes| action.api.env.seal(bytes))
}

pub(super) fn config_drive(server: &ServerRecord) -> serde_json::Value {
    let instance = &server.instance;
    ConfigDrive {
        uuid: instance.uuid,
        name: &instance.display_name,
        hostname: instance.hostname.as_deref(),
        launch_index: instance.launch_index,
        availability_zone: instance.availability_zone.as_deref(),
        metadata: &server.metadata,
        key: instance.key_name.as_deref().zip(instance.key_data.as_deref()),
    }
    .to_json()
}
