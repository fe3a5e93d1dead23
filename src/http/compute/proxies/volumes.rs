//! `/os-volumes`: a project's volumes, in the form of the compute API.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use actix_web::{HttpResponse, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Volumes, is_there, limited, of_volumes, volume_id};
use crate::env::Env;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, moment, ok};
use crate::http::compute::body::rules::{ShortText, rules};
use crate::http::compute::body::{ALWAYS, Body, Integer};
use crate::http::compute::query::Query;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::services::proxies::VolumeProxy;
use crate::services::volume::{DEFAULT_OF_PROJECT, NewVolume, Volume, VolumeSource};

/// `POST /os-volumes`.
pub(super) static CREATE: Body<VolumeBody> = Body::within("volume", ALWAYS);

rules! {
    /// The metadata of a volume.
    VolumeMetadata = json!({
        "type": "object",
        "maxProperties": 128,
        "patternProperties": {"^.{1,255}$": {"type": "string", "maxLength": 255}},
        "additionalProperties": false,
    });
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeBody {
    size: Integer<1>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    volume_type: Option<String>,
    #[serde(default)]
    #[schemars(with = "VolumeMetadata")]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    snapshot_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    availability_zone: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    display_name: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    display_description: Option<String>,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-volumes").route(web::get().to(index)).route(web::post().to(create)))
        .service(web::resource("/os-volumes/detail").route(web::get().to(detail)))
        .service(web::resource("/os-volumes/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

async fn index(call: Call<dyn VolumeProxy>) -> Answer {
    list(call, "os_compute_api:os-volumes:list").await
}

async fn detail(call: Call<dyn VolumeProxy>) -> Answer {
    list(call, "os_compute_api:os-volumes:detail").await
}

async fn list(Call { request, api: volumes, catalog, caller, version }: Call<dyn VolumeProxy>, rule: &str) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, rule)?;
    let query = Query::of(&request)?;
    let own = volumes.volumes_of(&caller.0.project_id).await.map_err(of_volumes)?;
    let own = limited(own, &query, catalog.max_limit)?;
    ok(&json!({"volumes": own.iter().map(view).collect::<Vec<_>>()}))
}

async fn show(Call { api: volumes, catalog, caller, version, .. }: Call<dyn VolumeProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:show")?;
    let volume = volumes.visible_volume(&caller.0, volume_id(&id)?).await.map_err(of_volumes)?;
    ok(&json!({"volume": view(&volume)}))
}

async fn create(
    Call { request, api: volumes, catalog, caller, version }: Call<dyn VolumeProxy>,
    env: web::Data<Env>,
    body: Document,
) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:create")?;
    let body = CREATE.read(version, &body).await?;
    let new = new_volume(&volumes, &body, &caller, env.uuid()).await?;
    let volume = volumes.begin_volume(new.clone(), body.display_description, body.metadata).await.map_err(of_volumes)?;
    let location = format!("{}{}/{}", base_url::of(&request), request.path(), volume.id);
    let answer = HttpResponse::Ok().insert_header((LOCATION, location)).json(json!({"volume": view(&volume)}));
    // The bytes follow later, as for the volume API: the client waits for the status available or error.
    actix_web::rt::spawn(async move { volumes.finish_volume(&new).await });
    Ok(answer)
}

async fn new_volume(volumes: &Volumes, body: &VolumeBody, caller: &Caller, id: uuid::Uuid) -> Result<NewVolume, ApiError> {
    if let Some(zone) = &body.availability_zone
        && !volumes.has_zone(zone).await.map_err(of_volumes)?
    {
        return Err(bad_request(format!("Availability zone '{zone}' is invalid.")));
    }
    let source = match &body.snapshot_id {
        Some(snapshot) => VolumeSource::Snapshot(super::snapshot_id(snapshot)?),
        None => VolumeSource::Blank,
    };
    let volume_type = body.volume_type.as_deref().unwrap_or(DEFAULT_OF_PROJECT);
    let volume_type = volumes.volume_type(&caller.0, volume_type).await.map_err(of_volumes)?;
    Ok(NewVolume {
        id,
        name: body.display_name.clone(),
        caller: caller.0.clone(),
        size_gb: body.size.stored("size")?,
        source,
        volume_type: Some(volume_type),
    })
}

async fn delete(Call { api: volumes, catalog, caller, version, .. }: Call<dyn VolumeProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:delete")?;
    volumes.delete_volume_for(&caller.0, volume_id(&id)?).await.map_err(of_volumes)?;
    empty(StatusCode::ACCEPTED)
}

fn view(volume: &Volume) -> Value {
    json!({
        "id": volume.id,
        "status": volume.status,
        "size": volume.size_gb,
        "availabilityZone": volume.availability_zone,
        "createdAt": moment(volume.created_at),
        "attachments": [attachment(volume)],
        "displayName": volume.name,
        "displayDescription": volume.description,
        "volumeType": volume.volume_type,
        "snapshotId": volume.snapshot_id,
        "metadata": volume.shown_metadata(),
    })
}

/// Describes the volume's first attachment to a server, which the compute service made or a user recorded. Nova shows an empty one if there
/// is none.
fn attachment(volume: &Volume) -> Value {
    let by_compute = volume.attachments.iter().filter(|one| one.status == "attached").map(|one| (one.server, one.mountpoint.as_deref()));
    let directly = volume.direct_attachments.iter().filter(|one| one.attached_at.is_some());
    let directly = directly.filter_map(|one| Some((one.server?, Some(one.mountpoint.as_str()))));
    let Some((server, device)) = by_compute.chain(directly).next() else { return json!({}) };
    let mut view = json!({"id": volume.id, "volumeId": volume.id, "serverId": server});
    if let Some(device) = device.filter(|device| !device.is_empty()) {
        view["device"] = json!(device);
    }
    view
}
