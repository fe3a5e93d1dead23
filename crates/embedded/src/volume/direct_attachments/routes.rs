//! The actions by which users of this API reserve, attach and detach volumes themselves. Servers attach through the compute API.

use actix_web::HttpResponse;
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::volume::routes::{bad_request, conflicting, not_found, parameters, require};
use crate::volume::{AttachMode, AttachmentRequest, EmbeddedVolume, StatusReset, fields};

/// The maximum length of a mount point or a host's name, in characters.
const LONGEST: usize = 255;
/// The statuses of a migration that Cinder knows.
const MIGRATION_STATUSES: [&str; 6] = ["migrating", "error", "success", "completing", "none", "starting"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::volume) struct Attach {
    #[schemars(with = "Option<String>")]
    instance_uuid: Option<Uuid>,
    host_name: Option<String>,
    mountpoint: String,
    #[serde(default)]
    mode: AttachMode,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::volume) struct Detach {
    #[schemars(with = "Option<String>")]
    attachment_id: Option<Uuid>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::volume) struct ForceDetach {
    attachment_id: Option<String>,
    /// Has no effect: nothing is connected.
    #[serde(rename = "connector")]
    _connector: Option<Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::volume) struct Reset {
    status: Option<String>,
    attach_status: Option<String>,
    migration_status: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(in crate::volume) struct ReadOnlyFlag {
    #[serde(default)]
    readonly: Value,
}

/// A call's volume, as its handlers take it.
pub(in crate::volume) struct Target<'a> {
    pub volumes: &'a EmbeddedVolume,
    pub caller: &'a Caller,
    pub id: Uuid,
}

type Answer = Result<HttpResponse, ApiError>;

fn accepted() -> HttpResponse {
    HttpResponse::Accepted().finish()
}

pub(in crate::volume) async fn reserve(target: Target<'_>) -> Answer {
    target.volumes.reserve(&target.caller.0, target.id).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn unreserve(target: Target<'_>) -> Answer {
    target.volumes.unreserve(&target.caller.0, target.id).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn attach(target: Target<'_>, request: Attach) -> Answer {
    let fits = |text: &str| !text.is_empty() && text.chars().nth(LONGEST).is_none();
    if !fits(&request.mountpoint) || request.host_name.as_deref().is_some_and(|host| !fits(host)) {
        return Err(bad_request(format!("os-attach: mountpoint and host_name have 1 to {LONGEST} characters.")));
    }
    if request.instance_uuid.is_none() && request.host_name.is_none() {
        return Err(bad_request("os-attach needs an instance_uuid or a host_name."));
    }
    let request =
        AttachmentRequest { server: request.instance_uuid, host: request.host_name, mountpoint: request.mountpoint, mode: request.mode };
    target.volumes.attach_directly(&target.caller.0, target.id, request).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn detach(target: Target<'_>, value: Value) -> Answer {
    let request = if value.is_null() { Detach::default() } else { parameters("os-detach", value)? };
    target.volumes.detach_directly(&target.caller.0, target.id, request.attachment_id).await.map_err(conflicting)?;
    Ok(accepted())
}

/// For administrators. It goes no further than [`detach`]: the compute service's attachments stay.
pub(in crate::volume) async fn force_detach(target: Target<'_>, value: Value) -> Answer {
    require(target.caller, "admin")?;
    let request: ForceDetach = parameters("os-force_detach", value)?;
    let id = |text: String| Uuid::parse_str(&text).map_err(|_| not_found("Volume attachment", &text));
    let attachment = request.attachment_id.map(id).transpose()?;
    target.volumes.detach_directly(&target.caller.0, target.id, attachment).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn begin_detaching(target: Target<'_>) -> Answer {
    target.volumes.begin_detaching(&target.caller.0, target.id).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn roll_detaching(target: Target<'_>) -> Answer {
    target.volumes.roll_detaching(&target.caller.0, target.id).await.map_err(conflicting)?;
    Ok(accepted())
}

pub(in crate::volume) async fn set_readonly(target: Target<'_>, change: ReadOnlyFlag) -> Answer {
    let readonly = fields::flag("readonly", &change.readonly)?;
    target.volumes.set_readonly(&target.caller.0, target.id, readonly).await.map_err(conflicting)?;
    Ok(accepted())
}

/// For administrators, after an accident.
pub(in crate::volume) async fn reset_status(target: Target<'_>, value: Value) -> Answer {
    require(target.caller, "admin")?;
    let request: Reset = parameters("os-reset_status", value)?;
    let word = |text: Option<String>| text.map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
    let (status, attached, migration) = (word(request.status), word(request.attach_status), word(request.migration_status));
    if status.is_none() && attached.is_none() && migration.is_none() {
        return Err(bad_request("Must specify 'status', 'attach_status' or 'migration_status' for update."));
    }
    let attached = match attached.as_deref() {
        None => None,
        Some("attached") => Some(true),
        Some("detached") => Some(false),
        Some(other) => return Err(bad_request(format!("Volume attach status: {other} is none of attached, detached."))),
    };
    if let Some(other) = migration.as_deref().filter(|word| !MIGRATION_STATUSES.contains(word)) {
        return Err(bad_request(format!("Volume migration status: {other} is none of {}.", MIGRATION_STATUSES.join(", "))));
    }
    let migration_status = migration.map(|word| Some(word).filter(|word| word != "none"));
    target.volumes.reset_status(target.id, StatusReset { status, attached, migration_status }).await.map_err(conflicting)?;
    Ok(accepted())
}
