//! `/os-assisted-volume-snapshots`: a volume driver whose volumes are files asks that a running guest go over to a new file.
//!
//! The requests are checked as Nova checks them. A simulated guest's volume is never such a file, and the volume service makes its snapshots of
//! volumes in use by itself, so there is nothing to do on the host.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{Answer, bad_request, empty, incomplete, ok};
use super::body::rules::rules;
use super::body::{ALWAYS, Body};
use super::catalog::{Catalog, Gathered};
use super::query::Query;
use super::schema::Schema;
use super::servers::ComputeApi;
use crate::cell_registry::{LookupError, ServerRecord};
use crate::db::DbError;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("POST /os-assisted-volume-snapshots", &CREATE.schema)];

static CREATE: Body<NewSnapshot> = Body::within("snapshot", ALWAYS);

rules! {
    /// A text that is not empty.
    Text = json!({"type": "string", "minLength": 1});
    /// The format of the new file.
    FileFormat = json!({"type": "string", "enum": ["qcow2"]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewSnapshot {
    #[schemars(with = "Text")]
    volume_id: String,
    create_info: FileSwitch,
}

/// The file that the guest would go over to. The guest's volumes are no such files, so only the id is used.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileSwitch {
    #[serde(rename = "snapshot_id")]
    #[schemars(with = "Text")]
    _snapshot_id: String,
    #[serde(rename = "type")]
    #[schemars(with = "FileFormat")]
    _format: String,
    #[serde(rename = "new_file")]
    #[schemars(with = "Text")]
    _new_file: String,
    #[serde(default)]
    #[schemars(with = "Text")]
    id: Option<String>,
}

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-assisted-volume-snapshots").route(web::post().to(create)))
        .service(web::resource("/os-assisted-volume-snapshots/{id}").route(web::delete().to(delete)));
}

async fn create(catalog: web::Data<Catalog>, api: web::Data<ComputeApi>, caller: Caller, version: ApiVersion, body: Document) -> Answer {
    catalog.allow(&caller, "os_compute_api:os-assisted-volume-snapshots:create")?;
    let snapshot = CREATE.read(version, &body).await?;
    let volume = volume_id(&snapshot.volume_id)?;
    let server = holder_of(&catalog, &api, volume).await?;
    require_ready(&server, "volume_snapshot_create")?;
    ok(&json!({"snapshot": {"id": snapshot.create_info.id, "volumeId": volume}}))
}

async fn delete(
    catalog: web::Data<Catalog>,
    api: web::Data<ComputeApi>,
    caller: Caller,
    version: ApiVersion,
    request: HttpRequest,
) -> Answer {
    const ACTION: &str = "volume_snapshot_delete";
    catalog.allow(&caller, "os_compute_api:os-assisted-volume-snapshots:delete")?;
    let query = Query::of(&request)?;
    if version.at_least(75) {
        query.only(&["delete_info"])?;
    }
    let info = query.get("delete_info").ok_or_else(|| bad_request("'delete_info'"))?;
    let info: Value = serde_json::from_str(info).map_err(|error| bad_request(format!("delete_info is no JSON: {error}.")))?;
    let volume = info["volume_id"].as_str().ok_or_else(|| bad_request("'volume_id'"))?;
    let server = holder_of(&catalog, &api, volume_id(volume)?).await?;
    require_ready(&server, ACTION)?;
    if info.get("merge_target_file").is_some_and(|file| !file.is_null()) && server.instance.vm_state != VmState::Active {
        return Err(in_wrong_state(&server, "vm_state", server.instance.vm_state.as_str(), ACTION));
    }
    empty(StatusCode::NO_CONTENT)
}

/// Parses the id of a volume. Other text names no volume that a server has.
fn volume_id(volume: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(volume).map_err(|_| not_attached(volume))
}

fn not_attached(volume: &str) -> ApiError {
    bad_request(format!("No volume Block Device Mapping with id {volume:.80}."))
}

/// Returns the server that has the volume. 400 if none has it, or several have.
async fn holder_of(catalog: &Catalog, api: &ComputeApi, volume: Uuid) -> Result<Arc<ServerRecord>, ApiError> {
    let Gathered { rows, silent } = catalog.gather_named(|cell| cell.servers_with_volume(volume)).await;
    let candidates: BTreeSet<Uuid> = rows.into_iter().map(|(_, server)| server).collect();
    let mut holders = Vec::new();
    for server in candidates {
        match api.registry.server(server).await {
            // A copy of a server that moves may name a volume that the server has no more.
            Ok(record) if record.block_devices.iter().any(|device| device.volume_id == Some(volume)) => holders.push(record),
            Ok(_) | Err(LookupError::Db(DbError::NotFound(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match holders.pop() {
        None if !silent.is_empty() => Err(incomplete(&silent)),
        None => Err(not_attached(&volume.to_string())),
        Some(_) if !holders.is_empty() => {
            Err(bad_request(format!("Block Device Mapping {volume} is a multi-attach volume and is not valid for this operation.")))
        }
        Some(holder) => Ok(holder),
    }
}

/// Like Nova, answers 400 for a server without a host or with a task.
fn require_ready(server: &ServerRecord, action: &str) -> Result<(), ApiError> {
    if server.instance.host.is_none() {
        return Err(bad_request(format!("Instance {} is not ready", server.instance.uuid)));
    }
    match server.instance.task_state {
        Some(task) => Err(in_wrong_state(server, "task_state", task.as_str(), action)),
        None => Ok(()),
    }
}

fn in_wrong_state(server: &ServerRecord, attribute: &str, state: &str, action: &str) -> ApiError {
    let uuid = server.instance.uuid;
    bad_request(format!("Instance {uuid} in {attribute} {state}. Cannot {action} while the instance is in this state."))
}
