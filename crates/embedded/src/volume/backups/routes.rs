//! Lists, makes, shows, changes, restores and deletes backups of volumes.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::routes::request_bodies::{RequestBody, of_type};
use crate::volume::fields::{self, given};
use crate::volume::paging::{self, Listed, Page, Query, SortValue};
use crate::volume::routes::{NoFields, Status, bad_request, failed, named_action, not_found, parameters, require, time};
use crate::volume::{Backup, BackupUpdate, EmbeddedVolume, NewBackup, RESTORED, RestoreTarget, ZONE};

/// The container of a backup that names none.
const CONTAINER: &str = "volumebackups";
/// The first microversion in which a backup can be changed.
const UPDATE_SINCE: u16 = 9;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/backups").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/backups/detail").route(web::get().to(list_details)));
    let one = web::resource("/backups/{id}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/backups/{id}/restore").route(web::post().to(restore)));
    cfg.service(web::resource("/backups/{id}/action").route(web::post().to(act)));
}

impl Listed for Backup {
    const COLLECTION: &'static str = "backups";
    const KIND: &'static str = "Backup";

    fn id(&self) -> Uuid {
        self.id
    }

    fn sort_value(key: &str) -> Option<SortValue<Backup>> {
        match key {
            "id" => Some(|one| one.id.to_string()),
            "name" => Some(|one| one.name.clone().unwrap_or_default()),
            "status" => Some(|one| one.status.clone()),
            "volume_id" => Some(|one| one.volume_id.to_string()),
            "size" => Some(|one| paging::sortable(one.size_gb)),
            "created_at" => Some(|one| time(one.created_at)),
            _ => None,
        }
    }
}

/// Parses an id in a path. Other text names no backup, so the answer is 404.
fn backup_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found("Backup", text))
}

/// Parses an id in a body.
fn id_of(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| bad_request(format!("'{text}' is not a 'uuid'")))
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /backups", of_type::<CreateBody>),
    ("volume PUT /backups/{}", of_type::<UpdateBody>),
    ("volume POST /backups/{}/restore", of_type::<RestoreBody>),
    ("volume POST /backups/{}/action#os-reset_status", of_type::<Status>),
    ("volume POST /backups/{}/action#os-force_delete", of_type::<NoFields>),
];

#[derive(Deserialize, JsonSchema)]
struct CreateBody {
    backup: NewFields,
}

#[derive(Deserialize, JsonSchema)]
struct NewFields {
    volume_id: String,
    snapshot_id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    container: Option<String>,
    incremental: Option<Value>,
    force: Option<Value>,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
struct UpdateBody {
    backup: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
struct ChangedFields {
    #[serde(default, deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    description: Option<Option<String>>,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
struct RestoreBody {
    restore: RestoreFields,
}

#[derive(Deserialize, JsonSchema)]
struct RestoreFields {
    volume_id: Option<String>,
    name: Option<String>,
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|backup| summary(&request, backup)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

async fn list_details(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(|backup| detail(&request, version, &caller, backup)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

/// Returns one page of the matching backups that the caller may see.
async fn page(volumes: &EmbeddedVolume, caller: &Caller, query: &Query) -> Result<Page<Backup>, ApiError> {
    let mut known = volumes.list_backups(paging::project(caller, query)).await.map_err(failed)?;
    known.retain(|backup| {
        paging::is(query, "name", backup.name.as_deref().unwrap_or_default())
            && paging::is(query, "status", &backup.status)
            && paging::is(query, "volume_id", &backup.volume_id.to_string())
    });
    paging::page(known, query)
}

async fn create(
    request: HttpRequest,
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<Env>,
    caller: Caller,
    Json(CreateBody { backup: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let flag = |field, value: &Option<Value>| value.as_ref().map_or(Ok(false), |value| fields::flag(field, value));
    if flag("incremental", &wanted.incremental)? {
        return Err(bad_request("Invalid backup: each backup here is a full one, so that none depends on another."));
    }
    let metadata = wanted.metadata.unwrap_or_default();
    fields::check_metadata(&metadata)?;
    let new = NewBackup {
        id: env.uuid(),
        volume: id_of(&wanted.volume_id)?,
        snapshot: wanted.snapshot_id.as_deref().map(id_of).transpose()?,
        name: fields::text("name", wanted.name)?,
        description: fields::text("description", wanted.description)?,
        container: fields::text("container", wanted.container)?.filter(|name| !name.is_empty()).unwrap_or_else(|| CONTAINER.to_owned()),
        metadata,
        caller: caller.0.clone(),
        force: flag("force", &wanted.force)?,
    };
    let backup = volumes.new_backup(new).await.map_err(failed)?;
    let id = backup.id;
    // The bytes follow later: the client waits for the status available or error.
    actix_web::rt::spawn(async move { volumes.fill_backup(id).await });
    Ok(HttpResponse::Accepted().json(json!({"backup": summary(&request, &backup)})))
}

async fn show(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let backup = volumes.own_backup(&caller.0, backup_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"backup": detail(&request, version, &caller, &backup)})))
}

async fn update(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(UpdateBody { backup }): Json<UpdateBody>,
) -> Result<HttpResponse, ApiError> {
    if !version.at_least(UPDATE_SINCE) {
        return Err(ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, "The resource could not be found."));
    }
    require(&caller, "member")?;
    if let Some(metadata) = &backup.metadata {
        fields::check_metadata(metadata)?;
    }
    let update = BackupUpdate {
        name: backup.name.map(|name| fields::text("name", name)).transpose()?,
        description: backup.description.map(|text| fields::text("description", text)).transpose()?,
        metadata: backup.metadata,
    };
    let changed = volumes.update_backup(&caller.0, backup_id(&id)?, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"backup": summary(&request, &changed)})))
}

async fn delete(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    volumes.delete_backup(&caller.0, backup_id(&id)?, false).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn restore(
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<Env>,
    caller: Caller,
    id: web::Path<String>,
    Json(RestoreBody { restore: wanted }): Json<RestoreBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let id = backup_id(&id)?;
    let target = match wanted.volume_id {
        Some(volume) => RestoreTarget::Volume(id_of(&volume)?),
        None => {
            let name = fields::text("name", wanted.name)?.filter(|name| !name.is_empty());
            RestoreTarget::New { id: env.uuid(), name: name.unwrap_or_else(|| format!("{RESTORED}{id}")) }
        }
    };
    let begun = volumes.begin_restore(&caller.0, id, target).await.map_err(failed)?;
    let answer = json!({"backup_id": id, "volume_id": begun.volume.id, "volume_name": begun.volume.name});
    actix_web::rt::spawn(async move { volumes.finish_restore(begun).await });
    Ok(HttpResponse::Accepted().json(json!({"restore": answer})))
}

async fn act(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "admin")?;
    let id = backup_id(&id)?;
    volumes.own_backup(&caller.0, id).await.map_err(failed)?;
    let (name, value) = named_action(body)?;
    match name.as_str() {
        "os-reset_status" => {
            let Status { status } = parameters(&name, value)?;
            volumes.reset_backup_status(id, &status).await.map_err(failed)?;
        }
        "os-force_delete" => volumes.delete_backup(&caller.0, id, true).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}

/// Returns a backup for a list without details, and for the answers to create and update.
fn summary(request: &HttpRequest, backup: &Backup) -> Value {
    let (base, id) = (base_url::of(request), backup.id);
    let links = json!([
        {"rel": "self", "href": format!("{base}/volume/v3/backups/{id}")},
        {"rel": "bookmark", "href": format!("{base}/volume/backups/{id}")},
    ]);
    json!({"id": id, "name": backup.name, "links": links})
}

/// Returns a backup for itself or for a list with details.
fn detail(request: &HttpRequest, version: ApiVersion, caller: &Caller, backup: &Backup) -> Value {
    let mut body = summary(request, backup);
    let more = json!({
        "description": backup.description,
        "volume_id": backup.volume_id,
        "snapshot_id": backup.snapshot_id,
        "status": backup.status,
        "size": backup.size_gb,
        "object_count": i32::from(["available", "restoring"].contains(&backup.status.as_str())),
        "container": backup.container,
        "availability_zone": ZONE,
        "fail_reason": backup.fail_reason,
        "is_incremental": false,
        "has_dependent_backups": false,
        "created_at": time(backup.created_at),
        "updated_at": backup.updated_at.map(time),
        "data_timestamp": time(backup.created_at),
    });
    let mut put = |key: &str, value: Value| body[key] = value;
    for (key, value) in more.as_object().into_iter().flatten() {
        put(key, value.clone());
    }
    if version.at_least(18) && caller.0.is_admin() {
        put("os-backup-project-attr:project_id", json!(backup.project_id));
    }
    if version.at_least(43) {
        put("metadata", json!(backup.metadata));
    }
    if version.at_least(56) && caller.0.is_admin() {
        put("user_id", json!(backup.user_id));
    }
    body
}
