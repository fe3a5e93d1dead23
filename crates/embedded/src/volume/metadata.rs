//! The metadata of volumes and of snapshots, as a whole and by key.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::ServiceError;
use crate::request_bodies::{RequestBody, bodies};
use crate::volume::paging::{Listed, id_of};
use crate::volume::routes::{Call, bad_request, failed, not_found, require};
use crate::volume::{Snapshot, Volume, fields};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    register::<Volume>(cfg);
    register::<Snapshot>(cfg);
}

fn register<H: Holder>(cfg: &mut web::ServiceConfig) {
    let all =
        web::resource(format!("/{}/{{id}}/metadata", H::COLLECTION)).route(web::get().to(show::<H>)).route(web::post().to(merge::<H>));
    cfg.service(all.route(web::put().to(replace::<H>)));
    let one = web::resource(format!("/{}/{{id}}/metadata/{{key}}", H::COLLECTION)).route(web::get().to(show_one::<H>));
    cfg.service(one.route(web::put().to(set_one::<H>)).route(web::delete().to(remove::<H>)));
}

type Metadata = BTreeMap<String, String>;

/// A thing that has metadata.
trait Holder: Listed + 'static {
    async fn metadata(call: &Call, id: Uuid) -> Result<Metadata, ServiceError>;

    async fn change<F>(call: &Call, id: Uuid, change: F) -> Result<Metadata, ServiceError>
    where
        F: FnOnce(&mut Metadata) -> Result<(), ServiceError> + Send + 'static;
}

macro_rules! holder {
    ($thing:ty, $own:ident, $change:ident) => {
        impl Holder for $thing {
            async fn metadata(call: &Call, id: Uuid) -> Result<Metadata, ServiceError> {
                Ok(call.service.$own(&call.caller.0, id).await?.metadata)
            }

            async fn change<F>(call: &Call, id: Uuid, change: F) -> Result<Metadata, ServiceError>
            where
                F: FnOnce(&mut Metadata) -> Result<(), ServiceError> + Send + 'static,
            {
                Ok(call.service.$change(&call.caller.0, id, change).await?.metadata)
            }
        }
    };
}

holder!(Volume, own_volume, change_metadata);
holder!(Snapshot, own_snapshot, change_snapshot_metadata);

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /volumes/{}/metadata" => Body,
    "volume PUT /volumes/{}/metadata" => Body,
    "volume PUT /volumes/{}/metadata/{}" => ItemBody,
    "volume POST /snapshots/{}/metadata" => Body,
    "volume PUT /snapshots/{}/metadata" => Body,
    "volume PUT /snapshots/{}/metadata/{}" => ItemBody,
};

#[derive(Deserialize, JsonSchema)]
struct Body {
    metadata: Metadata,
}

#[derive(Deserialize, JsonSchema)]
struct ItemBody {
    meta: Metadata,
}

async fn show<H: Holder>(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let metadata = H::metadata(&call, id_of::<H>(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn show_one<H: Holder>(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    let metadata = H::metadata(&call, id_of::<H>(&id)?).await.map_err(failed)?;
    let value = metadata.get(&key).ok_or_else(|| not_found("Metadata key", &key))?;
    Ok(HttpResponse::Ok().json(json!({"meta": {key: value}})))
}

async fn merge<H: Holder>(call: Call, id: web::Path<String>, Json(body): Json<Body>) -> Result<HttpResponse, ApiError> {
    let metadata = merged::<H>(&call, &id, body.metadata).await?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn set_one<H: Holder>(call: Call, path: web::Path<(String, String)>, Json(body): Json<ItemBody>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    if body.meta.len() != 1 || !body.meta.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch: the body must have the key of the URI alone."));
    }
    let metadata = merged::<H>(&call, &id, body.meta).await?;
    Ok(HttpResponse::Ok().json(json!({"meta": {&key: metadata.get(&key)}})))
}

async fn merged<H: Holder>(call: &Call, id: &str, added: Metadata) -> Result<Metadata, ApiError> {
    require(&call.caller, "member")?;
    fields::check_metadata(&added)?;
    let change = move |metadata: &mut Metadata| {
        metadata.extend(added);
        // Checks the old and new metadata together.
        fields::check_metadata(metadata).map_err(|error| ServiceError::Invalid(Reason::public(error.message)))
    };
    H::change(call, id_of::<H>(id)?, change).await.map_err(failed)
}

async fn replace<H: Holder>(call: Call, id: web::Path<String>, Json(body): Json<Body>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    fields::check_metadata(&body.metadata)?;
    let change = move |metadata: &mut Metadata| {
        *metadata = body.metadata;
        Ok(())
    };
    let metadata = H::change(&call, id_of::<H>(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": metadata})))
}

async fn remove<H: Holder>(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let (id, key) = path.into_inner();
    let change = move |metadata: &mut Metadata| match metadata.remove(&key) {
        Some(_) => Ok(()),
        None => Err(ServiceError::NotFound(reason!("Metadata key {key} could not be found."))),
    };
    H::change(&call, id_of::<H>(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}
