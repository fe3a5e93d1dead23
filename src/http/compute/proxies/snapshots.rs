//! `/os-snapshots`: the snapshots of a project's volumes, in the form of the compute API.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{is_there, limited, of_volumes, snapshot_id, volume_id};
use crate::env::Env;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, empty, moment, ok};
use crate::http::compute::body::rules::ShortText;
use crate::http::compute::body::{ALWAYS, Body, Flag};
use crate::http::compute::query::Query;
use crate::http::json::Document;
use crate::services::proxies::VolumeProxy;
use crate::services::volume::{NewSnapshot, Snapshot};

/// `POST /os-snapshots`.
pub(super) static CREATE: Body<SnapshotBody> = Body::within("snapshot", ALWAYS);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotBody {
    #[schemars(with = "ShortText")]
    volume_id: String,
    #[serde(default)]
    force: Flag,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    display_name: Option<String>,
    #[serde(default)]
    #[schemars(with = "ShortText")]
    display_description: Option<String>,
}

pub(super) fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-snapshots").route(web::get().to(index)).route(web::post().to(create)))
        .service(web::resource("/os-snapshots/detail").route(web::get().to(detail)))
        .service(web::resource("/os-snapshots/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

async fn index(call: Call<dyn VolumeProxy>) -> Answer {
    list(call, "os_compute_api:os-volumes:snapshots:list").await
}

async fn detail(call: Call<dyn VolumeProxy>) -> Answer {
    list(call, "os_compute_api:os-volumes:snapshots:detail").await
}

async fn list(Call { request, api: volumes, catalog, caller, version }: Call<dyn VolumeProxy>, rule: &str) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, rule)?;
    let query = Query::of(&request)?;
    let snapshots = volumes.snapshots_of(&caller.0.project_id).await.map_err(of_volumes)?;
    let snapshots = limited(snapshots, &query, catalog.max_limit)?;
    ok(&json!({"snapshots": snapshots.iter().map(view).collect::<Vec<_>>()}))
}

async fn show(Call { api: volumes, catalog, caller, version, .. }: Call<dyn VolumeProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:snapshots:show")?;
    let snapshot = volumes.visible_snapshot(&caller.0, snapshot_id(&id)?).await.map_err(of_volumes)?;
    ok(&json!({"snapshot": view(&snapshot)}))
}

async fn create(Call { api: volumes, catalog, caller, version, .. }: Call<dyn VolumeProxy>, env: web::Data<Env>, body: Document) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:snapshots:create")?;
    let body = CREATE.read(version, &body).await?;
    let new = NewSnapshot {
        id: env.uuid(),
        volume: volume_id(&body.volume_id)?,
        name: body.display_name,
        description: body.display_description,
        metadata: BTreeMap::new(),
        caller: caller.0.clone(),
        force: body.force.0,
    };
    let id = new.id;
    let snapshot = volumes.begin_snapshot(new).await.map_err(of_volumes)?;
    // The bytes follow later, as for the volume API: the client waits for the status available or error.
    actix_web::rt::spawn(async move { volumes.finish_snapshot(id).await });
    ok(&json!({"snapshot": view(&snapshot)}))
}

async fn delete(Call { api: volumes, catalog, caller, version, .. }: Call<dyn VolumeProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    catalog.allow(&caller, "os_compute_api:os-volumes:snapshots:delete")?;
    volumes.delete_snapshot_for(&caller.0, snapshot_id(&id)?).await.map_err(of_volumes)?;
    empty(StatusCode::ACCEPTED)
}

fn view(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "volumeId": snapshot.volume_id,
        "status": snapshot.status,
        "size": snapshot.size_gb,
        "createdAt": moment(snapshot.created_at),
        "displayName": snapshot.name,
        "displayDescription": snapshot.description,
    })
}
