//! A volume's metadata, as a whole and by key.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::json;

use super::{failed, fields, not_found, require, volume_id};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::services::ServiceError;
use crate::services::volume::embedded::EmbeddedVolume;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let all = web::resource("/volumes/{id}/metadata").route(web::get().to(show)).route(web::post().to(merge));
    cfg.service(all.route(web::put().to(replace)));
    let one = web::resource("/volumes/{id}/metadata/{key}").route(web::get().to(show_one));
    cfg.service(one.route(web::delete().to(remove)));
}

#[derive(Deserialize)]
struct Body {
    metadata: BTreeMap<String, String>,
}

async fn show(volumes: web::Data<EmbeddedVolume>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let volume = volumes.own_volume(&caller.0, volume_id(&id)?).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": volume.metadata})))
}

async fn show_one(volumes: web::Data<EmbeddedVolume>, caller: Caller, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, key) = path.into_inner();
    let volume = volumes.own_volume(&caller.0, volume_id(&id)?).await.map_err(failed)?;
    let value = volume.metadata.get(&key).ok_or_else(|| not_found("Metadata key", &key))?;
    Ok(HttpResponse::Ok().json(json!({"meta": {key: value}})))
}

async fn merge(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    fields::check_metadata(&body.metadata)?;
    let change = move |metadata: &mut BTreeMap<String, String>| {
        metadata.extend(body.metadata);
        // Checks the old and new metadata together.
        fields::check_metadata(metadata).map_err(|error| ServiceError::Invalid(error.message))
    };
    let volume = volumes.change_metadata(&caller.0, volume_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": volume.metadata})))
}

async fn replace(
    volumes: web::Data<EmbeddedVolume>,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    fields::check_metadata(&body.metadata)?;
    let change = move |metadata: &mut BTreeMap<String, String>| {
        *metadata = body.metadata;
        Ok(())
    };
    let volume = volumes.change_metadata(&caller.0, volume_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": volume.metadata})))
}

async fn remove(volumes: web::Data<EmbeddedVolume>, caller: Caller, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let (id, key) = path.into_inner();
    let change = move |metadata: &mut BTreeMap<String, String>| match metadata.remove(&key) {
        Some(_) => Ok(()),
        None => Err(ServiceError::NotFound(format!("Metadata key {key} could not be found."))),
    };
    volumes.change_metadata(&caller.0, volume_id(&id)?, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}
