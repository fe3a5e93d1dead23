//! Actions on a volume.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde_json::{Map, Value, json};

use super::attaching::{self, Target};
use super::{bad_request, failed, fields, named_action, require, uploads, volume_id};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::ServiceError;
use crate::services::image::embedded::EmbeddedImage;
use crate::services::volume::embedded::{EmbeddedVolume, VolumeUpdate};

/// The first microversion in which a volume in use can be extended.
const EXTEND_IN_USE_SINCE: u16 = 42;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/volumes/{id}/action").route(web::post().to(act)));
}

async fn act(
    volumes: web::Data<EmbeddedVolume>,
    images: web::Data<EmbeddedImage>,
    version: ApiVersion,
    caller: Caller,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&caller, "member")?;
    let id = volume_id(&id)?;
    volumes.own_volume(&caller.0, id).await.map_err(failed)?;
    let (name, value) = named_action(body)?;
    let target = Target { volumes: &volumes, caller: &caller, id };
    match name.as_str() {
        "os-extend" => extend(target, version, &value).await,
        "os-set_bootable" => set_bootable(target, &value).await,
        "os-set_image_metadata" => set_image_metadata(target, &value).await,
        "os-unset_image_metadata" => unset_image_metadata(target, &value).await,
        "os-show_image_metadata" => show_image_metadata(target).await,
        "os-retype" => retype(target, &value).await,
        "os-volume_upload_image" => uploads::begin(volumes, images, version, caller, id, value).await,
        "os-reserve" => attaching::reserve(target).await,
        "os-unreserve" => attaching::unreserve(target).await,
        "os-attach" => attaching::attach(target, value).await,
        "os-detach" => attaching::detach(target, value).await,
        "os-force_detach" => attaching::force_detach(target, value).await,
        "os-begin_detaching" => attaching::begin_detaching(target).await,
        "os-roll_detaching" => attaching::roll_detaching(target).await,
        "os-update_readonly_flag" => attaching::set_readonly(target, &value).await,
        "os-reset_status" => attaching::reset_status(target, value).await,
        "os-force_delete" => force_delete(target).await,
        other => Err(bad_request(format!("There is no such action: {other}"))),
    }
}

async fn extend(Target { volumes, caller, id }: Target<'_>, version: ApiVersion, value: &Value) -> Result<HttpResponse, ApiError> {
    let size = fields::size("new_size", &value["new_size"])?;
    volumes.extend(&caller.0, id, size, version.at_least(EXTEND_IN_USE_SINCE)).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn set_bootable(Target { volumes, caller, id }: Target<'_>, value: &Value) -> Result<HttpResponse, ApiError> {
    let bootable = fields::flag("bootable", &value["bootable"])?;
    let update = VolumeUpdate { bootable: Some(bootable), ..VolumeUpdate::default() };
    volumes.update(&caller.0, id, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn set_image_metadata(Target { volumes, caller, id }: Target<'_>, value: &Value) -> Result<HttpResponse, ApiError> {
    let added: BTreeMap<String, String> = serde_json::from_value(value["metadata"].clone())
        .map_err(|_| bad_request("os-set_image_metadata needs metadata: an object of strings."))?;
    fields::check_metadata(&added)?;
    let change = move |metadata: &mut BTreeMap<String, String>| {
        metadata.extend(added);
        // Checks the old and new metadata together.
        fields::check_metadata(metadata).map_err(|error| ServiceError::Invalid(error.message))
    };
    let changed = volumes.change_image_metadata(&caller.0, id, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": changed.image_metadata})))
}

async fn unset_image_metadata(Target { volumes, caller, id }: Target<'_>, value: &Value) -> Result<HttpResponse, ApiError> {
    let key = value["key"].as_str().ok_or_else(|| bad_request("os-unset_image_metadata needs a key."))?.to_owned();
    let change = move |metadata: &mut BTreeMap<String, String>| match metadata.remove(&key) {
        Some(_) => Ok(()),
        None => Err(ServiceError::NotFound(format!("Volume {id} has no metadata with key {key}."))),
    };
    volumes.change_image_metadata(&caller.0, id, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn show_image_metadata(Target { volumes, caller, id }: Target<'_>) -> Result<HttpResponse, ApiError> {
    let volume = volumes.own_volume(&caller.0, id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": volume.image_metadata})))
}

async fn retype(Target { volumes, caller, id }: Target<'_>, value: &Value) -> Result<HttpResponse, ApiError> {
    let wanted = value["new_type"].as_str().ok_or_else(|| bad_request("os-retype needs a new_type."))?;
    volumes.retype(&caller.0, id, wanted).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn force_delete(Target { volumes, caller, id }: Target<'_>) -> Result<HttpResponse, ApiError> {
    require(caller, "admin")?;
    volumes.delete_own(&caller.0, id, true, false).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}
