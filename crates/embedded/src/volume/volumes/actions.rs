//! Actions on a volume.

use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use cellshift_web::microversion::ApiVersion;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ServiceError;
use crate::image::EmbeddedImage;
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::Shown;
use crate::volume::direct_attachments::routes::{self as attaching, Target};
use crate::volume::routes::{Call, NoFields, bad_request, failed, named_action, parameters, require};
use crate::volume::uploads::routes as uploads;
use crate::volume::{Volume, VolumeUpdate, fields};

/// The first microversion in which a volume in use can be extended.
const EXTEND_IN_USE_SINCE: u16 = 42;

/// The parameters of the actions.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! {
    "volume POST /volumes/{}/action#os-extend" => Extension,
    "volume POST /volumes/{}/action#os-set_bootable" => SetBootable,
    "volume POST /volumes/{}/action#os-set_image_metadata" => SetImageMetadata,
    "volume POST /volumes/{}/action#os-unset_image_metadata" => UnsetImageMetadata,
    "volume POST /volumes/{}/action#os-show_image_metadata" => NoFields,
    "volume POST /volumes/{}/action#os-retype" => Retype,
    "volume POST /volumes/{}/action#os-volume_upload_image" => uploads::Fields,
    "volume POST /volumes/{}/action#os-reserve" => NoFields,
    "volume POST /volumes/{}/action#os-unreserve" => NoFields,
    "volume POST /volumes/{}/action#os-attach" => attaching::Attach,
    "volume POST /volumes/{}/action#os-detach" => attaching::Detach,
    "volume POST /volumes/{}/action#os-force_detach" => attaching::ForceDetach,
    "volume POST /volumes/{}/action#os-begin_detaching" => NoFields,
    "volume POST /volumes/{}/action#os-roll_detaching" => NoFields,
    "volume POST /volumes/{}/action#os-update_readonly_flag" => attaching::ReadOnlyFlag,
    "volume POST /volumes/{}/action#os-reset_status" => attaching::Reset,
    "volume POST /volumes/{}/action#os-force_delete" => NoFields,
};

#[derive(Deserialize, JsonSchema)]
struct Extension {
    /// A number, or digits in a string.
    #[serde(default)]
    new_size: Value,
}

#[derive(Deserialize, JsonSchema)]
struct SetBootable {
    #[serde(default)]
    bootable: Value,
}

#[derive(Deserialize, JsonSchema)]
struct SetImageMetadata {
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
struct UnsetImageMetadata {
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct Retype {
    new_type: String,
    #[serde(rename = "migration_policy")]
    _migration_policy: Option<MigrationPolicy>,
}

/// Says whether a volume may move to a type of another store. There is one store, so none moves.
#[derive(Deserialize, JsonSchema)]
enum MigrationPolicy {
    #[serde(rename = "never")]
    Never,
    #[serde(rename = "on-demand")]
    OnDemand,
}

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/volumes/{id}/action").route(web::post().to(act)));
}

async fn act(
    call: Call,
    images: web::Data<EmbeddedImage>,
    id: web::Path<String>,
    Json(body): Json<Map<String, Value>>,
) -> Result<HttpResponse, ApiError> {
    require(&call.caller, "member")?;
    let id = Volume::show(&call, &id).await?.id;
    let (name, value) = named_action(body)?;
    let target = Target { volumes: &call.service, caller: &call.caller, id };
    match name.as_str() {
        "os-extend" => extend(target, call.version, parameters(&name, value)?).await,
        "os-set_bootable" => set_bootable(target, parameters(&name, value)?).await,
        "os-set_image_metadata" => set_image_metadata(target, parameters(&name, value)?).await,
        "os-unset_image_metadata" => unset_image_metadata(target, parameters(&name, value)?).await,
        "os-show_image_metadata" => show_image_metadata(target).await,
        "os-retype" => retype(target, parameters(&name, value)?).await,
        "os-volume_upload_image" => uploads::begin(call, images, id, parameters(&name, value)?).await,
        "os-reserve" => attaching::reserve(target).await,
        "os-unreserve" => attaching::unreserve(target).await,
        "os-attach" => attaching::attach(target, parameters(&name, value)?).await,
        "os-detach" => attaching::detach(target, value).await,
        "os-force_detach" => attaching::force_detach(target, value).await,
        "os-begin_detaching" => attaching::begin_detaching(target).await,
        "os-roll_detaching" => attaching::roll_detaching(target).await,
        "os-update_readonly_flag" => attaching::set_readonly(target, parameters(&name, value)?).await,
        "os-reset_status" => attaching::reset_status(target, value).await,
        "os-force_delete" => force_delete(target).await,
        other => Err(bad_request(format!("There is no such action: {other}"))),
    }
}

async fn extend(Target { volumes, caller, id }: Target<'_>, version: ApiVersion, extension: Extension) -> Result<HttpResponse, ApiError> {
    let size = fields::size("new_size", &extension.new_size)?;
    volumes.extend(&caller.0, id, size, version.at_least(EXTEND_IN_USE_SINCE)).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn set_bootable(Target { volumes, caller, id }: Target<'_>, change: SetBootable) -> Result<HttpResponse, ApiError> {
    let bootable = fields::flag("bootable", &change.bootable)?;
    let update = VolumeUpdate { bootable: Some(bootable), ..VolumeUpdate::default() };
    volumes.update(&caller.0, id, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn set_image_metadata(
    Target { volumes, caller, id }: Target<'_>,
    SetImageMetadata { metadata: added }: SetImageMetadata,
) -> Result<HttpResponse, ApiError> {
    fields::check_metadata(&added)?;
    let change = move |metadata: &mut BTreeMap<String, String>| {
        metadata.extend(added);
        // Checks the old and new metadata together.
        fields::check_metadata(metadata).map_err(|error| ServiceError::Invalid(Reason::public(error.message)))
    };
    let changed = volumes.change_image_metadata(&caller.0, id, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": changed.image_metadata})))
}

async fn unset_image_metadata(
    Target { volumes, caller, id }: Target<'_>,
    UnsetImageMetadata { key }: UnsetImageMetadata,
) -> Result<HttpResponse, ApiError> {
    let change = move |metadata: &mut BTreeMap<String, String>| match metadata.remove(&key) {
        Some(_) => Ok(()),
        None => Err(ServiceError::NotFound(reason!("Volume {id} has no metadata with key {key}."))),
    };
    volumes.change_image_metadata(&caller.0, id, change).await.map_err(failed)?;
    Ok(HttpResponse::Ok().finish())
}

async fn show_image_metadata(Target { volumes, caller, id }: Target<'_>) -> Result<HttpResponse, ApiError> {
    let volume = volumes.own_volume(&caller.0, id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"metadata": volume.image_metadata})))
}

async fn retype(Target { volumes, caller, id }: Target<'_>, retype: Retype) -> Result<HttpResponse, ApiError> {
    volumes.retype(&caller.0, id, &retype.new_type).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}

async fn force_delete(Target { volumes, caller, id }: Target<'_>) -> Result<HttpResponse, ApiError> {
    require(caller, "admin")?;
    volumes.delete_own(&caller.0, id, true, false).await.map_err(failed)?;
    Ok(HttpResponse::Accepted().finish())
}
