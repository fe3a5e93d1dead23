//! Lists, takes, shows, changes and deletes snapshots of volumes.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::bodies::{self, CreateBody, SnapshotProgress, UpdateBody};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{self, Editable, Query, Shown, is};
use crate::volume::paging::{self, id_of, listed};
use crate::volume::routes::{Call, NoFields, Status, bad_request, failed, named_action, not_found, parameters, require};
use crate::volume::{EmbeddedVolume, NewSnapshot, Snapshot, SnapshotUpdate, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure_with_details::<Snapshot>(cfg);
    cfg.service(web::resource("/snapshots/{id}/action").route(web::post().to(act)));
}

listed! {
    Snapshot, "Snapshot",
    "name" | "display_name" => |one| one.name.clone().unwrap_or_default(),
    "description" => |one| one.description.clone().unwrap_or_default(),
    "status" => |one| one.status.clone(),
    "volume_id" => |one| one.volume_id.to_string(),
    "volume_size" | "size" => |one| paging::sortable(one.size_gb),
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /snapshots" => CreateBody,
    "volume PUT /snapshots/{}" => UpdateBody,
    "volume POST /snapshots/{}/action#os-update_snapshot_status" => SnapshotProgress,
    "volume POST /snapshots/{}/action#os-reset_status" => Status,
    "volume POST /snapshots/{}/action#os-force_delete" => NoFields,
};

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

impl Editable for Snapshot {
    type New = CreateBody;
    type Change = UpdateBody;
    const CREATED: StatusCode = StatusCode::ACCEPTED;

    async fn create(call: &Call, CreateBody { snapshot: fields }: CreateBody) -> Result<Snapshot, ApiError> {
        require(&call.caller, "member")?;
        let metadata = fields.metadata.unwrap_or_default();
        fields::check_metadata(&metadata)?;
        let new = NewSnapshot {
            id: call.service.env.uuid(),
            volume: volume_of(fields.volume_id)?,
            name: fields::text("name", fields.name)?,
            description: fields::text("description", fields.description)?,
            metadata,
            caller: call.caller.0.clone(),
            force: force(call.version, fields.force.as_ref())?,
        };
        let snapshot = call.service.new_snapshot(new).await.map_err(failed)?;
        // The bytes follow later: the client waits for the status available or error.
        let (volumes, id) = (call.service.clone(), snapshot.id);
        actix_web::rt::spawn(async move { volumes.fill_snapshot(None, id).await });
        Ok(snapshot)
    }

    async fn update(call: &Call, id: &str, UpdateBody { snapshot: fields }: UpdateBody) -> Result<Snapshot, ApiError> {
        require(&call.caller, "member")?;
        let update = SnapshotUpdate {
            name: fields::changed_text("name", fields.name)?,
            description: fields::changed_text("description", fields.description)?,
        };
        call.service.update_snapshot(&call.caller.0, id_of::<Snapshot>(id)?, update).await.map_err(failed)
    }

    fn created(&self, call: &Call) -> Value {
        json!({"snapshot": bodies::detail(call.version, self)})
    }
}

/// Returns the volume that a body names. As in Cinder, null names one that does not exist.
fn volume_of(field: Option<Option<String>>) -> Result<Uuid, ApiError> {
    let volume = field.ok_or_else(|| bad_request("Invalid input for field/attribute snapshot: 'volume_id' is a required property."))?;
    let text = volume.ok_or_else(|| not_found("Volume", "null"))?;
    fields::id(&text)
}

/// Returns whether a volume in use may have a snapshot. From 3.66 on it always may, and the field may say nothing else.
fn force(version: ApiVersion, field: Option<&Value>) -> Result<bool, ApiError> {
    let flag = field.map(|value| fields::flag("force", value)).transpose()?;
    match (version.at_least(66), flag) {
        (true, Some(false)) => {
            Err(bad_request("Invalid input received: snapshots of volumes in use need no force from 3.66 on, so it cannot be false."))
        }
        (true, _) => Ok(true),
        (false, flag) => Ok(flag.unwrap_or(false)),
    }
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
