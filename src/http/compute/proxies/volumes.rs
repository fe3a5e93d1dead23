//! `/os-volumes`: a project's volumes, in the form of the compute API.

use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{Volumes, is_there, limited, of_volumes, volume_id};
use crate::env::Env;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, bad_request, empty, moment, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::query::Query;
use crate::http::compute::servers::strings;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{Schema, as_integer, integer, object};
use crate::services::volume::{DEFAULT_OF_PROJECT, NewVolume, Volume, VolumeSource, ZONE};

/// `POST /os-volumes`.
pub(super) static CREATE: Schema = Schema::fixed(create_schema);

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-volumes").route(web::get().to(index)).route(web::post().to(create)))
        .service(web::resource("/os-volumes/detail").route(web::get().to(detail)))
        .service(web::resource("/os-volumes/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

fn create_schema(_: u16) -> Value {
    let text = json!({"type": "string", "maxLength": 255});
    let value = json!({"type": "string", "maxLength": 255});
    let volume = json!({
        "volume_type": text,
        "metadata": {"type": "object", "maxProperties": 128, "patternProperties": {"^.{1,255}$": value}, "additionalProperties": false},
        "snapshot_id": text,
        "size": integer(1),
        "availability_zone": text,
        "display_name": text,
        "display_description": text,
    });
    object(&json!({"volume": object(&volume, &["size"])}), &["volume"])
}

async fn index(volumes: Volumes, catalog: web::Data<Catalog>, caller: Caller, version: ApiVersion, request: HttpRequest) -> Answer {
    list(&volumes, &catalog, &caller, version, &request, "os_compute_api:os-volumes:list").await
}

async fn detail(volumes: Volumes, catalog: web::Data<Catalog>, caller: Caller, version: ApiVersion, request: HttpRequest) -> Answer {
    list(&volumes, &catalog, &caller, version, &request, "os_compute_api:os-volumes:detail").await
}

async fn list(volumes: &Volumes, catalog: &Catalog, caller: &Caller, version: ApiVersion, request: &HttpRequest, rule: &str) -> Answer {
    is_there(version)?;
    catalog.allow(caller, rule)?;
    let query = Query::of(request)?;
    let found = volumes.list(Some(&caller.0.project_id)).await.map_err(of_volumes)?;
    let found = limited(found, &query, catalog.max_limit)?;
    ok(&json!({"volumes": found.iter().map(view).collect::<Vec<_>>()}))
}

async fn show(volumes: Volumes, catalog: web::Data<Catalog>, caller: Caller, version: ApiVersion, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:show")?;
    let volume = volumes.own_volume(&caller.0, volume_id(&id)?).await.map_err(of_volumes)?;
    ok(&json!({"volume": view(&volume)}))
}

async fn create(
    volumes: Volumes,
    env: web::Data<Env>,
    catalog: web::Data<Catalog>,
    caller: Caller,
    version: ApiVersion,
    body: Document,
    request: HttpRequest,
) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:create")?;
    CREATE.check(version, &body).await?;
    let wanted = &body["volume"];
    let new = read_new(&volumes, wanted, &caller, env.uuid()).await?;
    let description = wanted["display_description"].as_str().map(str::to_owned);
    let volume = volumes.create(new.clone(), description, strings(&wanted["metadata"])).await.map_err(of_volumes)?;
    let location = format!("{}{}/{}", base_url::of(&request), request.path(), volume.id);
    let answer = HttpResponse::Ok().insert_header((LOCATION, location)).json(json!({"volume": view(&volume)}));
    // The bytes follow later, as for the volume API: the client waits for the status available or error.
    actix_web::rt::spawn(async move { volumes.make(&new).await });
    Ok(answer)
}

async fn read_new(volumes: &Volumes, wanted: &Value, caller: &Caller, id: uuid::Uuid) -> Result<NewVolume, ApiError> {
    if let Some(zone) = wanted["availability_zone"].as_str().filter(|zone| *zone != ZONE) {
        return Err(bad_request(format!("Availability zone '{zone}' is invalid.")));
    }
    let source = match wanted["snapshot_id"].as_str() {
        Some(snapshot) => VolumeSource::Snapshot(super::snapshot_id(snapshot)?),
        None => VolumeSource::Blank,
    };
    let volume_type =
        volumes.usable_type(&caller.0, wanted["volume_type"].as_str().unwrap_or(DEFAULT_OF_PROJECT)).await.map_err(of_volumes)?;
    Ok(NewVolume {
        id,
        name: wanted["display_name"].as_str().map(str::to_owned),
        caller: caller.0.clone(),
        size_gb: as_integer(&wanted["size"], "size")?,
        source,
        volume_type: Some(volume_type.name),
    })
}

async fn delete(volumes: Volumes, catalog: web::Data<Catalog>, caller: Caller, version: ApiVersion, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:delete")?;
    volumes.delete_own(&caller.0, volume_id(&id)?, false, false).await.map_err(of_volumes)?;
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
