//! `/servers/{id}/os-volume_attachments`.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::create::networks::service_error;
use super::rules::Tag;
use super::{ComputeApi, access, devices};
use crate::cell_registry::{Located, ServerRecord};
use crate::domain::block_device::{BlockDevice, BlockDeviceChange};
use crate::domain::context::RequestContext;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, empty, not_found, ok};
use crate::http::compute::body::rules::{UuidText, rules};
use crate::http::compute::body::{Body, Flag, nullable};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;
use crate::saga::context::{AttachRequest, DetachRequest, Request};
use crate::services::ServiceError;
use crate::services::volume::Volume;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/servers/{id}/os-volume_attachments").route(web::get().to(index)).route(web::post().to(attach))).service(
        web::resource("/servers/{id}/os-volume_attachments/{volume}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(detach)),
    );
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] =
    &[("POST /servers/{}/os-volume_attachments", &ATTACH.schema), ("PUT /servers/{}/os-volume_attachments/{}", &UPDATE.schema)];

static ATTACH: Body<NewAttachment> = Body::within("volumeAttachment", &[1, 49, 79]);
static UPDATE: Body<AttachmentChange> = Body::within("volumeAttachment", &[1, 85]);

rules! {
    /// The path of a device in the guest, or null.
    DevicePath = json!({"type": ["string", "null"], "pattern": "^/dev/x?[a-z]?d?[a-z]+[0-9]*$"});
    /// A text, or null.
    TextOrNull = json!({"type": ["string", "null"]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewAttachment {
    #[serde(rename = "volumeId")]
    #[schemars(with = "UuidText")]
    volume_id: String,
    #[serde(default)]
    #[schemars(with = "DevicePath")]
    device: Option<String>,
    #[serde(default)]
    #[schemars(with = "Tag", extend("since" = 49))]
    tag: Option<String>,
    #[serde(default)]
    #[schemars(extend("since" = 79))]
    delete_on_termination: Flag,
}

/// The other fields of an answer may be in the body, but only unchanged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AttachmentChange {
    #[serde(rename = "volumeId")]
    #[schemars(with = "UuidText")]
    volume_id: String,
    #[serde(default)]
    #[schemars(with = "UuidText", extend("since" = 85))]
    id: Option<String>,
    #[serde(default, rename = "serverId")]
    #[schemars(with = "UuidText", extend("since" = 85))]
    server_id: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "TextOrNull", extend("since" = 85))]
    device: Option<Option<String>>,
    #[serde(default)]
    #[schemars(with = "Tag", extend("since" = 85))]
    tag: Option<String>,
    #[serde(default)]
    #[schemars(with = "Flag", extend("since" = 85))]
    delete_on_termination: Option<Flag>,
}

async fn index(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["limit", "offset"])?;
    }
    let server = api.load(&caller, &id, "os_compute_api:os-volumes-attachments:index").await?;
    let (offset, limit) = (query.number("offset")?.unwrap_or(0), query.limit(api.options.max_limit)?);
    let volumes = server.block_devices.iter().filter(|device| device.is_volume()).skip(offset).take(limit);
    ok(&json!({"volumeAttachments": volumes.map(|device| view(device, version)).collect::<Vec<_>>()}))
}

async fn show(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    let (id, volume) = path.into_inner();
    let server = api.load(&caller, &id, "os_compute_api:os-volumes-attachments:show").await?;
    ok(&json!({"volumeAttachment": view(attached(&server, &id, &volume)?, version)}))
}

fn view(device: &BlockDevice, version: ApiVersion) -> Value {
    let mut view = json!({"serverId": device.instance_uuid, "volumeId": device.volume_id, "device": device.device_name});
    if version.at_least(89) {
        view["attachment_id"] = json!(device.attachment_id);
        view["bdm_uuid"] = json!(device.uuid);
    } else {
        view["id"] = json!(device.volume_id);
    }
    if version.at_least(70) {
        view["tag"] = json!(device.tag);
    }
    if version.at_least(79) {
        view["delete_on_termination"] = json!(device.delete_on_termination);
    }
    view
}

fn attached<'a>(server: &'a ServerRecord, id: &str, volume: &str) -> Result<&'a BlockDevice, ApiError> {
    let volume_id = Uuid::parse_str(volume).ok();
    let device = server.block_devices.iter().find(|device| device.is_volume() && volume_id.is_some() && device.volume_id == volume_id);
    device.ok_or_else(|| not_found(format!("Instance {id} is not attached to volume {volume}")))
}

async fn attach(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>, body: Document) -> Answer {
    let NewAttachment { volume_id, device, tag, delete_on_termination: Flag(delete) } = ATTACH.read(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-volumes-attachments:create").await?;
    check_state(&located, version, "attach_volume")?;
    let server = api.registry.server(located.instance.uuid).await?;
    let volume = usable_volume(&api, &caller, version, &server, &volume_id).await?;
    let device = device_name(&server, device.as_deref())?;
    if tag.is_some() && located.instance.vm_state == VmState::ShelvedOffloaded {
        return Err(bad_request("Tagged volume attachment is not supported for shelved-offloaded instances."));
    }
    let request = Request::AttachVolume(AttachRequest {
        volume_id: volume.id,
        device_name: Some(device.clone()),
        tag: tag.clone(),
        delete_on_termination: delete,
    });
    api.begin(&caller, &located.instance, request).await?;
    if version.at_least(101) {
        return empty(StatusCode::ACCEPTED);
    }
    let mut view = json!({"id": volume.id, "serverId": located.instance.uuid, "volumeId": volume.id, "device": device});
    if version.at_least(70) {
        view["tag"] = json!(tag);
    }
    if version.at_least(79) {
        view["delete_on_termination"] = json!(delete);
    }
    Ok(HttpResponse::Ok().json(json!({"volumeAttachment": view})))
}

/// Checks that the server is at rest, waits for confirm or revert, or, from 2.20 on, is shelved.
fn check_state(located: &Located, version: ApiVersion, action: &str) -> Result<(), ApiError> {
    match located.instance.vm_state {
        VmState::Active | VmState::Paused | VmState::Stopped | VmState::Resized => access::require_no_task(&located.instance, action),
        VmState::Shelved | VmState::ShelvedOffloaded if version.at_least(20) => access::require_no_task(&located.instance, action),
        other => Err(access::wrong_state(&located.instance, action, "vm_state", other.as_str())),
    }
}

async fn usable_volume(
    api: &ComputeApi,
    caller: &RequestContext,
    version: ApiVersion,
    server: &ServerRecord,
    id: &str,
) -> Result<Volume, ApiError> {
    let unknown = || not_found(format!("Volume {id} could not be found."));
    let uuid = Uuid::parse_str(id).map_err(|_| unknown())?;
    let volume = match api.volumes.volume(uuid).await {
        Ok(volume) if volume.project_id == caller.project_id || caller.is_admin() => volume,
        Ok(_) | Err(ServiceError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(service_error(error)),
    };
    if server.block_devices.iter().any(|device| device.volume_id == Some(uuid)) {
        return Err(bad_request(format!("Invalid volume: volume {id} already attached")));
    }
    if volume.multiattach && !version.at_least(60) {
        return Err(bad_request("Multiattach volumes are only supported starting with compute API version 2.60."));
    }
    if volume.multiattach && server.instance.vm_state == VmState::ShelvedOffloaded {
        return Err(bad_request("Attaching multiattach volumes is not supported for shelved-offloaded instances."));
    }
    match volume.refuses_servers() {
        Some(why) => Err(bad_request(why)),
        None => Ok(volume),
    }
}

/// Returns the requested device name, or the first free one.
fn device_name(server: &ServerRecord, requested: Option<&str>) -> Result<String, ApiError> {
    let mut names = devices::of_local_disks(&server.instance.flavor);
    names.extend(server.block_devices.iter().filter_map(|device| device.device_name.clone()));
    match requested {
        Some(name) if names.iter().any(|other| other == name) => Err(conflict(format!("The supplied device path ({name}) is in use."))),
        Some(name) => Ok(name.to_owned()),
        None => devices::free(names.iter().map(String::as_str)).ok_or_else(|| conflict("There is no device name left for another volume.")),
    }
}

/// From 2.85 on changes whether the volume is deleted with the server. Otherwise it asks to replace the volume, which is refused.
async fn update(
    Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    let (id, volume) = path.into_inner();
    let change = UPDATE.read(version, &body).await?;
    let other = &change.volume_id;
    if *other != volume || !version.at_least(85) {
        let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-volumes-attachments:swap").await?;
        return Err(refuse_swap(&api, &located, &volume, other).await);
    }
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-volumes-attachments:update").await?;
    let server = api.registry.server(located.instance.uuid).await?;
    let device = attached(&server, &id, &volume)?;
    check_unchanged(device, &change)?;
    if let Some(Flag(delete)) = change.delete_on_termination {
        let change = BlockDeviceChange { delete_on_termination: Some(delete), ..BlockDeviceChange::default() };
        api.registry.change_block_device(&located, device.uuid, change).await?;
    }
    empty(StatusCode::ACCEPTED)
}

/// Returns the refusal of a swap: 404 for an unknown volume of the path, 400 for one of the body. Nova swaps volumes only for Cinder's own
/// migration of a volume between two stores, and there is one store here.
async fn refuse_swap(api: &ComputeApi, located: &Located, volume: &str, other: &str) -> ApiError {
    let unknown = |id: &str| format!("Volume {id} could not be found.");
    for (id, missing) in [(volume, not_found(unknown(volume))), (other, bad_request(unknown(other)))] {
        let Ok(uuid) = Uuid::parse_str(id) else { return missing };
        match api.volumes.volume(uuid).await {
            Ok(_) => {}
            Err(ServiceError::NotFound(_)) => return missing,
            Err(error) => return service_error(error),
        }
    }
    match api.registry.server(located.instance.uuid).await.map(|server| attached(&server, &located.instance.uuid.to_string(), volume).err())
    {
        Ok(Some(missing)) => missing,
        Ok(None) => conflict(format!("Volume {volume} is not migrating to another store. Detach it and attach the other volume.")),
        Err(error) => error.into(),
    }
}

/// Accepts the other fields of an answer in the body, but only unchanged.
fn check_unchanged(device: &BlockDevice, change: &AttachmentChange) -> Result<(), ApiError> {
    let fields = [
        ("id", change.id.clone().map(Some), device.attachment_id.map(|id| id.to_string())),
        ("serverId", change.server_id.clone().map(Some), Some(device.instance_uuid.to_string())),
        ("device", change.device.clone(), device.device_name.clone()),
        ("tag", change.tag.clone().map(Some), device.tag.clone()),
    ];
    let changed = fields.iter().find(|(_, requested, present)| requested.as_ref().is_some_and(|requested| requested != present));
    changed.map_or(Ok(()), |(key, ..)| Err(bad_request(format!("The {key} property is not mutable"))))
}

async fn detach(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    let (id, volume) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-volumes-attachments:delete").await?;
    check_state(&located, version, "detach_volume")?;
    let server = api.registry.server(located.instance.uuid).await?;
    let device = attached(&server, &id, &volume)?;
    if device.boot_index == Some(0) {
        return Err(bad_request("Cannot detach a root device volume"));
    }
    if let Some(volume_id) = device.volume_id {
        api.begin(&caller, &located.instance, Request::DetachVolume(DetachRequest { volume_id })).await?;
    }
    empty(StatusCode::ACCEPTED)
}
