//! Lists, takes, shows, changes and deletes snapshots of volumes.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

use crate::routes::request_bodies::{RequestBody, of_type};
use crate::volume::fields::{self, given};
use crate::volume::paging::{self, Listed, Page, Query, SortValue};
use crate::volume::routes::{NoFields, Status, bad_request, failed, named_action, not_found, parameters, require, time};
use crate::volume::{EmbeddedVolume, NewSnapshot, Snapshot, SnapshotUpdate};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/snapshots").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/snapshots/detail").route(web::get().to(list_details)));
    let one = web::resource("/snapshots/{id}").route(web::get().to(show)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/snapshots/{id}/action").route(web::post().to(act)));
}

impl Listed for Snapshot {
    const COLLECTION: &'static str = "snapshots";
    const KIND: &'static str = "Snapshot";

    fn id(&self) -> Uuid {
        self.id
    }

    fn sort_value(key: &str) -> Option<SortValue<Snapshot>> {
        match key {
            "id" => Some(|one| one.id.to_string()),
            "name" | "display_name" => Some(|one| one.name.clone().unwrap_or_default()),
            "description" => Some(|one| one.description.clone().unwrap_or_default()),
            "status" => Some(|one| one.status.clone()),
            "volume_id" => Some(|one| one.volume_id.to_string()),
            "volume_size" | "size" => Some(|one| paging::sortable(one.size_gb)),
            "created_at" => Some(|one| time(one.created_at)),
            _ => None,
        }
    }
}

/// Parses an id in a path. Other text names no snapshot, so the answer is 404.
pub(in crate::volume) fn snapshot_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| not_found("Snapshot", text))
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /snapshots", of_type::<CreateBody>),
    ("volume PUT /snapshots/{}", of_type::<UpdateBody>),
    ("volume POST /snapshots/{}/action#os-update_snapshot_status", of_type::<SnapshotProgress>),
    ("volume POST /snapshots/{}/action#os-reset_status", of_type::<Status>),
    ("volume POST /snapshots/{}/action#os-force_delete", of_type::<NoFields>),
];

#[derive(Deserialize, JsonSchema)]
struct CreateBody {
    snapshot: NewFields,
}

#[derive(Deserialize, JsonSchema)]
struct NewFields {
    #[serde(default, deserialize_with = "given")]
    volume_id: Option<Option<String>>,
    #[serde(alias = "display_name")]
    name: Option<String>,
    #[serde(alias = "display_description")]
    description: Option<String>,
    force: Option<Value>,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema)]
struct UpdateBody {
    snapshot: ChangedFields,
}

#[derive(Deserialize, JsonSchema)]
struct ChangedFields {
    #[serde(default, alias = "display_name", deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, alias = "display_description", deserialize_with = "given")]
    description: Option<Option<String>>,
}

async fn list(
    request: HttpRequest,
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    query: web::Query<Query>,
) -> Result<HttpResponse, ApiError> {
    let page = page(&volumes, &caller, &query).await?;
    let shown = page.entries.iter().map(summary).collect();
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
    let shown = page.entries.iter().map(|snapshot| whole(version, snapshot)).collect();
    Ok(HttpResponse::Ok().json(paging::body(&request, version, &page, shown)))
}

/// Returns one page of the matching snapshots that the caller may see.
async fn page(volumes: &EmbeddedVolume, caller: &Caller, query: &Query) -> Result<Page<Snapshot>, ApiError> {
    let mut known = volumes.list_snapshots(paging::project(caller, query)).await.map_err(failed)?;
    known.retain(|snapshot| {
        let name = snapshot.name.as_deref().unwrap_or_default();
        paging::is(query, "name", name)
            && paging::is(query, "display_name", name)
            && paging::is(query, "status", &snapshot.status)
            && paging::is(query, "volume_id", &snapshot.volume_id.to_string())
    });
    paging::page(known, query)
}

async fn create(
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    env: web::Data<cellshift_env::Env>,
    caller: Caller,
    Json(CreateBody { snapshot: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let metadata = wanted.metadata.unwrap_or_default();
    fields::check_metadata(&metadata)?;
    let new = NewSnapshot {
        id: env.uuid(),
        volume: volume_of(wanted.volume_id)?,
        name: fields::text("name", wanted.name)?,
        description: fields::text("description", wanted.description)?,
        metadata,
        caller: caller.0.clone(),
        force: force(version, wanted.force.as_ref())?,
    };
    let id = new.id;
    let snapshot = volumes.new_snapshot(new).await.map_err(failed)?;
    // The bytes follow later: the client waits for the status available or error.
    actix_web::rt::spawn(async move { volumes.fill_snapshot(None, id).await });
    Ok(HttpResponse::Accepted().json(json!({"snapshot": detail(version, &snapshot)})))
}

/// Returns the volume that a body names. As in Cinder, null names one that does not exist.
fn volume_of(given: Option<Option<String>>) -> Result<Uuid, ApiError> {
    let named = given.ok_or_else(|| bad_request("Invalid input for field/attribute snapshot: 'volume_id' is a required property."))?;
    let text = named.ok_or_else(|| not_found("Volume", "null"))?;
    Uuid::parse_str(&text).map_err(|_| bad_request(format!("'{text}' is not a 'uuid'")))
}

/// Returns whether a volume in use may have a snapshot. From 3.66 on it always may, and the field may say nothing else.
fn force(version: ApiVersion, given: Option<&Value>) -> Result<bool, ApiError> {
    let given = given.map(|value| fields::flag("force", value)).transpose()?;
    match (version.at_least(66), given) {
        (true, Some(false)) => {
            Err(bad_request("Invalid input received: snapshots of volumes in use need no force from 3.66 on, so it cannot be false."))
        }
        (true, _) => Ok(true),
        (false, given) => Ok(given.unwrap_or(false)),
    }
}

async fn show(
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let snapshot = volumes.own_snapshot(&caller.0, snapshot_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"snapshot": whole(version, &snapshot)})))
}

async fn update(
    version: ApiVersion,
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(UpdateBody { snapshot }): Json<UpdateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let update = SnapshotUpdate {
        name: snapshot.name.map(|name| fields::text("name", name)).transpose()?,
        description: snapshot.description.map(|text| fields::text("description", text)).transpose()?,
    };
    let changed = volumes.update_snapshot(&caller.0, snapshot_id(&id)?, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"snapshot": detail(version, &changed)})))
}

async fn delete(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    volumes.delete_own_snapshot(&caller.0, snapshot_id(&id)?, false).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn act(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let (name, value) = named_action(body)?;
    if name != UPDATE_STATUS {
        require(&caller, "admin")?;
    }
    let id = snapshot_id(&id)?;
    volumes.own_snapshot(&caller.0, id).await.map_err(failed)?;
    match name.as_str() {
        UPDATE_STATUS => {
            let report: SnapshotProgress = parameters(&name, value)?;
            if let Some(progress) = report.progress.as_deref().filter(|progress| !is_percentage(progress)) {
                return Err(bad_request(format!("progress must be an integer percentage between 0 and 100, unlike {progress:.40}.")));
            }
            volumes.tell_snapshot_status(&caller.0, id, &report.status, report.progress).await.map_err(failed)?;
        }
        "os-reset_status" => {
            let Status { status } = parameters(&name, value)?;
            volumes.reset_snapshot_status(id, &status).await.map_err(failed)?;
        }
        "os-force_delete" => volumes.delete_own_snapshot(&caller.0, id, true).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}

/// The action by which an owner tells how far a snapshot is. The others are for administrators.
const UPDATE_STATUS: &str = "os-update_snapshot_status";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotProgress {
    status: String,
    progress: Option<String>,
}

/// True for `0%` to `100%`.
fn is_percentage(text: &str) -> bool {
    text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok()).is_some_and(|number| number <= 100)
}

/// Returns a snapshot for a list without details.
fn summary(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "name": snapshot.name,
        "description": snapshot.description,
        "volume_id": snapshot.volume_id,
        "status": snapshot.status,
        "size": snapshot.size_gb,
        "metadata": snapshot.metadata,
        "created_at": time(snapshot.created_at),
        "updated_at": snapshot.updated_at.map(time),
    })
}

/// Returns a snapshot for the answers to create and update.
fn detail(version: ApiVersion, snapshot: &Snapshot) -> Value {
    let mut body = summary(snapshot);
    if version.at_least(14) {
        body["group_snapshot_id"] = Value::Null;
    }
    if version.at_least(41) {
        body["user_id"] = json!(snapshot.user_id);
    }
    if version.at_least(65) {
        body["consumes_quota"] = json!(true);
    }
    body
}

/// Returns a snapshot for itself or for a list with details: also its owner and its progress.
fn whole(version: ApiVersion, snapshot: &Snapshot) -> Value {
    let mut body = detail(version, snapshot);
    let by_status = if snapshot.status == "available" { "100%" } else { "0%" };
    let progress = snapshot.progress.as_deref().unwrap_or(by_status);
    body["os-extended-snapshot-attributes:progress"] = json!(progress);
    body["os-extended-snapshot-attributes:project_id"] = json!(snapshot.project_id);
    body
}
