//! `createImage` and `createBackup`.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::http::compute::answer::{Answer, bad_request, empty, forbidden};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body, number};
use crate::http::compute::quota_usage::Holder;
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::quota;
use crate::http::compute::servers::rules::{MetadataMap, ServerName};
use crate::http::error::ApiError;
use crate::saga::context::{Backup, CreateImageRequest, Request, image_of_operation};
use crate::services::ServiceError;

/// The longest wait for the image's record, which the operation makes in one of its first steps.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

pub(super) static CREATE_IMAGE: Body<NewImage> = Body::within("createImage", ALWAYS);
pub(super) static CREATE_BACKUP: Body<NewBackup> = Body::within("createBackup", ALWAYS);

rules! {
    /// The number of backups that are kept.
    Rotation = json!({"type": ["integer", "string"], "pattern": "^[0-9]{1,9}$", "minimum": 0, "maximum": i32::MAX});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewImage {
    #[schemars(with = "ServerName")]
    name: String,
    #[serde(default)]
    #[schemars(with = "MetadataMap")]
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBackup {
    #[schemars(with = "ServerName")]
    name: String,
    backup_type: String,
    #[serde(deserialize_with = "number")]
    #[schemars(with = "Rotation")]
    rotation: Option<i64>,
    #[serde(default)]
    #[schemars(with = "MetadataMap")]
    metadata: BTreeMap<String, String>,
}

pub(super) async fn snapshot(action: &ActionRequest<'_>) -> Answer {
    let image = action.read(&CREATE_IMAGE).await?;
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:servers:create_image").await?;
    begin(action, &located, image, None).await
}

pub(super) async fn backup(action: &ActionRequest<'_>) -> Answer {
    let NewBackup { name, backup_type, rotation, metadata } = action.read(&CREATE_BACKUP).await?;
    let located = action.api.locate_for(action.caller, action.id, "os_compute_api:os-create-backup").await?;
    let rotation = rotation.and_then(|rotation| usize::try_from(rotation).ok()).unwrap_or_default();
    begin(action, &located, NewImage { name, metadata }, Some(Backup { kind: backup_type, rotation })).await
}

async fn begin(action: &ActionRequest<'_>, located: &Located, image: NewImage, backup: Option<Backup>) -> Answer {
    let instance = &located.instance;
    if instance.is_volume_backed() {
        if backup.is_some() {
            return Err(bad_request(format!("It's not supported to backup volume backed instance {}.", instance.uuid)));
        }
        check_room(action).await?;
    }
    quota::check_metadata(action.catalog, Holder::of_writer(action.caller, instance), &image.metadata).await?;
    // An image that is deleted at once has no place, but its id is told.
    let none_is_kept = backup.as_ref().is_some_and(|backup| backup.rotation == 0);
    let request = CreateImageRequest { name: image.name.trim().to_owned(), metadata: image.metadata, backup };
    let operation = action.api.begin(action.caller, instance, Request::CreateImage(Box::new(request))).await?;
    let image = image_of_operation(operation);
    await_image(action, operation, image).await;
    match action.version.at_least(45) {
        true => Ok(HttpResponse::Accepted().json(json!({"image_id": image}))),
        false if none_is_kept => empty(StatusCode::ACCEPTED),
        false => {
            let place = format!("{}/image/v2/images/{image}", action.base);
            Ok(HttpResponse::Accepted().insert_header((LOCATION, place)).finish())
        }
    }
}

/// Answers 403 if the project has no room for a snapshot of each of the server's volumes.
async fn check_room(action: &ActionRequest<'_>) -> Result<(), ApiError> {
    let server = action.api.load(action.caller, action.id, "os_compute_api:servers:create_image").await?;
    let volumes = server.block_devices.iter().filter(|device| device.is_volume()).filter_map(|device| device.volume_id).collect();
    action.api.volumes.check_room_for_snapshots(volumes).await.map_err(|error| match error {
        ServiceError::OverLimit(why) => forbidden(why),
        other => service_error(other),
    })
}

/// Waits until the image has a record, so that a client that follows the answer finds it.
async fn await_image(action: &ActionRequest<'_>, operation: Uuid, image: Uuid) {
    let end = async {
        while let Err(ServiceError::NotFound(_)) = action.api.images.image(image).await {
            if action.api.operations.failure(operation).await.is_ok_and(|why| why.is_some()) {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    // The operation goes on, and the server's instance action tells its end.
    let _ = tokio::time::timeout(PATIENCE, end).await;
}
