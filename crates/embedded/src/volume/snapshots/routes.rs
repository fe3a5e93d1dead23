//! Lists, takes, shows, changes and deletes snapshots of volumes.

use actix_web::{HttpResponse, web};
use cellshift_env::Env;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::bodies::{self, CreateBody, SnapshotProgress, UpdateBody};
use crate::request_bodies::{RequestBody, of_type};
use crate::resource::{self, Query, Shown, is};
use crate::volume::paging::{self, Listed, SortValue, id_of};
use crate::volume::routes::{Call, NoFields, Status, bad_request, failed, named_action, not_found, parameters, require, time};
use crate::volume::{EmbeddedVolume, NewSnapshot, Snapshot, SnapshotUpdate, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/snapshots").route(web::get().to(resource::list::<Snapshot>)).route(web::post().to(create)));
    cfg.service(web::resource("/snapshots/detail").route(web::get().to(resource::list_details::<Snapshot>)));
    let one = web::resource("/snapshots/{id}").route(web::get().to(resource::show::<Snapshot>)).route(web::put().to(update));
    cfg.service(one.route(web::delete().to(resource::delete::<Snapshot>)));
    cfg.service(web::resource("/snapshots/{id}/action").route(web::post().to(act)));
}

impl Listed for Snapshot {
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

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /snapshots", of_type::<CreateBody>),
    ("volume PUT /snapshots/{}", of_type::<UpdateBody>),
    ("volume POST /snapshots/{}/action#os-update_snapshot_status", of_type::<SnapshotProgress>),
    ("volume POST /snapshots/{}/action#os-reset_status", of_type::<Status>),
    ("volume POST /snapshots/{}/action#os-force_delete", of_type::<NoFields>),
];

impl Shown for Snapshot {
    type Service = EmbeddedVolume;

    const NAME: &'static str = "snapshot";
    const COLLECTION: &'static str = "snapshots";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Snapshot>, ApiError> {
        let mut snapshots = call.service.list_snapshots(paging::project(&call.caller, query)).await.map_err(failed)?;
        snapshots.retain(|snapshot| {
            let name = snapshot.name.as_deref().unwrap_or_default();
            is(query, "name", name)
                && is(query, "display_name", name)
                && is(query, "status", &snapshot.status)
                && is(query, "volume_id", &snapshot.volume_id.to_string())
        });
        Ok(snapshots)
    }

    async fn show(call: &Call, id: &str) -> Result<Snapshot, ApiError> {
        call.service.own_snapshot(&call.caller.0, id_of::<Snapshot>(id)?).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require(&call.caller, "member")?;
        call.service.delete_own_snapshot(&call.caller.0, id_of::<Snapshot>(id)?, false).await.map_err(failed)
    }

    fn view(&self, _: &Call) -> Value {
        bodies::summary(self)
    }

    fn detail(&self, call: &Call) -> Value {
        bodies::whole(call.version, self)
    }
}

async fn create(
    call: Call,
    env: web::Data<Env>,
    Json(CreateBody { snapshot: wanted }): Json<CreateBody>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let metadata = wanted.metadata.unwrap_or_default();
    fields::check_metadata(&metadata)?;
    let new = NewSnapshot {
        id: env.uuid(),
        volume: volume_of(wanted.volume_id)?,
        name: fields::text("name", wanted.name)?,
        description: fields::text("description", wanted.description)?,
        metadata,
        caller: call.caller.0.clone(),
        force: force(call.version, wanted.force.as_ref())?,
    };
    let id = new.id;
    let snapshot = call.service.new_snapshot(new).await.map_err(failed)?;
    // The bytes follow later: the client waits for the status available or error.
    let volumes = call.service.clone();
    actix_web::rt::spawn(async move { volumes.fill_snapshot(None, id).await });
    Ok(HttpResponse::Accepted().json(json!({"snapshot": bodies::detail(call.version, &snapshot)})))
}

/// Returns the volume that a body names. As in Cinder, null names one that does not exist.
fn volume_of(given: Option<Option<String>>) -> Result<Uuid, ApiError> {
    let named = given.ok_or_else(|| bad_request("Invalid input for field/attribute snapshot: 'volume_id' is a required property."))?;
    let text = named.ok_or_else(|| not_found("Volume", "null"))?;
    fields::id(&text)
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

async fn update(call: Call, id: web::Path<String>, Json(UpdateBody { snapshot }): Json<UpdateBody>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let update = SnapshotUpdate {
        name: fields::changed_text("name", snapshot.name)?,
        description: fields::changed_text("description", snapshot.description)?,
    };
    let changed = call.service.update_snapshot(&call.caller.0, id_of::<Snapshot>(&id)?, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"snapshot": bodies::detail(call.version, &changed)})))
}

async fn act(call: Call, id: web::Path<String>, Json(body): Json<Map<String, Value>>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let (name, value) = named_action(body)?;
    if name != UPDATE_STATUS {
        require(&call.caller, "admin")?;
    }
    let id = Snapshot::show(&call, &id).await?.id;
    match name.as_str() {
        UPDATE_STATUS => {
            let report: SnapshotProgress = parameters(&name, value)?;
            if let Some(progress) = report.progress.as_deref().filter(|progress| !is_percentage(progress)) {
                return Err(bad_request(format!("progress must be an integer percentage between 0 and 100, unlike {progress:.40}.")));
            }
            call.service.tell_snapshot_status(&call.caller.0, id, &report.status, report.progress).await.map_err(failed)?;
        }
        "os-reset_status" => {
            let Status { status } = parameters(&name, value)?;
            call.service.reset_snapshot_status(id, &status).await.map_err(failed)?;
        }
        "os-force_delete" => call.service.delete_own_snapshot(&call.caller.0, id, true).await.map_err(failed)?,
        other => return Err(bad_request(format!("There is no such action: {other}"))),
    }
    Ok(HttpResponse::Accepted().finish())
}

/// The action by which an owner tells how far a snapshot is. The others are for administrators.
const UPDATE_STATUS: &str = "os-update_snapshot_status";

/// True for `0%` to `100%`.
fn is_percentage(text: &str) -> bool {
    text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok()).is_some_and(|number| number <= 100)
}
