//! The metadata of volumes and of snapshots, as a whole and by key.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::ServiceError;
use crate::routes::request_bodies::{RequestBody, of_type};
use crate::volume::routes::{bad_request, failed, not_found, require, volume_id};
use crate::volume::snapshots::routes::snapshot_id;
use crate::volume::{EmbeddedVolume, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    register::<OfVolume>(cfg);
    register::<OfSnapshot>(cfg);
}

fn register<H: Holder>(cfg: &mut web::ServiceConfig) {
    let all =
        web::resource(format!("/{}/{{id}}/metadata", H::COLLECTION)).route(web::get().to(show::<H>)).route(web::post().to(merge::<H>));
    cfg.service(all.route(web::put().to(replace::<H>)));
    let one = web::resource(format!("/{}/{{id}}/metadata/{{key}}", H::COLLECTION)).route(web::get().to(show_one::<H>));
    cfg.service(one.route(web::put().to(set_one::<H>)).route(web::delete().to(remove::<H>)));
}

type Metadata = BTreeMap<String, String>;

/// A kind of thing that has metadata.
trait Holder: 'static {
    const COLLECTION: &'static str;

    async fn metadata(volumes: &EmbeddedVolume, caller: &Caller, id: &str) -> Result<Metadata, ApiError>;

    async fn change<F>(volumes: &EmbeddedVolume, caller: &Caller, id: &str, change: F) -> Result<Metadata, ApiError>
    where
        F: FnOnce(&mut Metadata) -> Result<(), ServiceError> + Send + 'static;
}

struct OfVolume;
struct OfSnapshot;

impl Holder for OfVolume {
    const COLLECTION: &'static str = "volumes";

    async fn metadata(volumes: &EmbeddedVolume, caller: &Caller, id: &str) -> Result<Metadata, ApiError> {
        Ok(volumes.own_volume(&caller.0, volume_id(id)?).await.map_err(failed)?.metadata)
    }

    async fn change<F>(volumes: &EmbeddedVolume, caller: &Caller, id: &str, change: F) -> Result<Metadata, ApiError>
    where
        F: FnOnce(&mut Metadata) -> Result<(), ServiceError> + Send + 'static,
    {
        Ok(volumes.change_metadata(&caller.0, volume_id(id)?, change).await.map_err(failed)?.metadata)
    }
}

impl Holder for OfSnapshot {
    const COLLECTION: &'static str = "snapshots";

    async fn metadata(volumes: &EmbeddedVolume, caller: &Caller, id: &str) -> Result<Metadata, ApiError> {
        Ok(volumes.own_snapshot(&caller.0, snapshot_id(id)?).await.map_err(failed)?.metadata)
    }

    async fn change<F>(volumes: &EmbeddedVolume, caller: &Caller, id: &str, change: F) -> Result<Metadata, ApiError>
    where
        F: FnOnce(&mut Metadata) -> Result<(), ServiceError> + Send + 'static,
    {
        Ok(volumes.change_snapshot_metadata(&caller.0, snapshot_id(id)?, change).await.map_err(failed)?.metadata)
    }
}

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = &[
    ("volume POST /volumes/{}/metadata", of_type::<Body>),
    ("volume PUT /volumes/{}/metadata", of_type::<Body>),
    ("volume PUT /volumes/{}/metadata/{}", of_type::<ItemBody>),
    ("volume POST /snapshots/{}/metadata", of_type::<Body>),
    ("volume PUT /snapshots/{}/metadata", of_type::<Body>),
    ("volume PUT /snapshots/{}/metadata/{}", of_type::<ItemBody>),
];

#[derive(Deserialize, JsonSchema)]
struct Body {
    metadata: Metadata,
}

#[derive(Deserialize, JsonSchema)]
struct ItemBody {
    meta: Metadata,
}

async fn show<H: Holder>(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let metadata = H::metadata(&volumes, &caller, &id).await?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn show_one<H: Holder>(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    let metadata = H::metadata(&volumes, &caller, &id).await?;
    let value = metadata.get(&key).ok_or_else(|| not_found("Metadata key", &key))?;
    Ok(HttpResponse::Ok().json(json!({"meta": {key: value}})))
}

async fn merge<H: Holder>(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let metadata = merged::<H>(&volumes, &caller, &id, body.metadata).await?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn set_one<H: Holder>(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    path: web::Path<(String, String)>,
    Json(body): Json<ItemBody>,
) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    if body.meta.len() != 1 || !body.meta.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch: the body must have the key of the URI alone."));
    }
    let metadata = merged::<H>(&volumes, &caller, &id, body.meta).await?;
    Ok(HttpResponse::Ok().json(json!({"meta": {&key: metadata.get(&key)}})))
}

async fn merged<H: Holder>(volumes: &EmbeddedVolume, caller: &Caller, id: &str, added: Metadata) -> Result<Metadata, ApiError> {
    require(caller, "member")?;
    fields::check_metadata(&added)?;
    let change = move |metadata: &mut Metadata| {
        metadata.extend(added);
        // Checks the old and new metadata together.
        fields::check_metadata(metadata).map_err(|error| ServiceError::Invalid(error.message))
    };
    H::change(volumes, caller, id, change).await
}

async fn replace<H: Holder>(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    fields::check_metadata(&body.metadata)?;
    let change = move |metadata: &mut Metadata| {
        *metadata = body.metadata;
        Ok(())
    };
    let metadata = H::change(&volumes, &caller, &id, change).await?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn remove<H: Holder>(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let (id, key) = path.into_inner();
    let change = move |metadata: &mut Metadata| match metadata.remove(&key) {
        Some(_) => Ok(()),
        None => Err(ServiceError::NotFound(format!("Metadata key {key} could not be found."))),
    };
    H::change(&volumes, &caller, &id, change).await?;
    Ok(HttpResponse::Ok().finish())
}
