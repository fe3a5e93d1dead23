//! `createImage` and `createBackup`.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::LOCATION;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ActionRequest;
use crate::cell_registry::Located;
use crate::http::compute::answer::{Answer, bad_request, empty, forbidden};
use crate::http::compute::quota_usage::Holder;
use crate::http::compute::servers::create::networks::service_error;
use crate::http::compute::servers::{quota, schemas};
use crate::http::error::ApiError;
use crate::saga::context::{Backup, CreateImageRequest, Request, image_of_operation};
use crate::services::ServiceError;

/// The longest wait for the image's record, which the operation makes in one of its first steps.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

pub(super) async fn snapshot(asked: &ActionRequest<'_>) -> Answer {
    schemas::CREATE_IMAGE.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:servers:create_image").await?;
    begin(asked, &located, &asked.body["createImage"], None).await
}

pub(super) async fn backup(asked: &ActionRequest<'_>) -> Answer {
    schemas::CREATE_BACKUP.check(asked.version, asked.body).await?;
    let located = asked.api.locate_for(asked.caller, asked.id, "os_compute_api:os-create-backup").await?;
    let wanted = &asked.body["createBackup"];
    let kind = wanted["backup_type"].as_str().unwrap_or_default().to_owned();
    let rotation = number(&wanted["rotation"]).unwrap_or_default();
    begin(asked, &located, wanted, Some(Backup { kind, rotation })).await
}

fn number(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok()).or_else(|| value.as_str()?.parse().ok())
}

async fn begin(asked: &ActionRequest<'_>, located: &Located, wanted: &Value, backup: Option<Backup>) -> Answer {
    let instance = &located.instance;
    if instance.is_volume_backed() {
        if backup.is_some() {
            return Err(bad_request(format!("It's not supported to backup volume backed instance {}.", instance.uuid)));
        }
        check_room(asked).await?;
    }
    let metadata = wanted["metadata"].as_object().into_iter().flatten();
    let metadata: BTreeMap<String, String> = metadata.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    quota::check_metadata(asked.catalog, Holder::of_writer(asked.caller, instance), &metadata).await?;
    let name = wanted["name"].as_str().unwrap_or_default().trim().to_owned();
    // An image that is deleted at once has no place, but its id is told.
    let none_is_kept = backup.as_ref().is_some_and(|backup| backup.rotation == 0);
    let request = CreateImageRequest { name, metadata, backup };
    let operation = asked.api.begin(asked.caller, instance, Request::CreateImage(Box::new(request))).await?;
    let image = image_of_operation(operation);
    await_image(asked, operation, image).await;
    match asked.version.at_least(45) {
        true => Ok(HttpResponse::Accepted().json(json!({"image_id": image}))),
        false if none_is_kept => empty(StatusCode::ACCEPTED),
        false => {
            let place = format!("{}/image/v2/images/{image}", asked.base);
            Ok(HttpResponse::Accepted().insert_header((LOCATION, place)).finish())
        }
    }
}

/// Answers 403 if the project has no room for a snapshot of each of the server's volumes.
async fn check_room(asked: &ActionRequest<'_>) -> Result<(), ApiError> {
    let server = asked.api.load(asked.caller, asked.id, "os_compute_api:servers:create_image").await?;
    let volumes = server.block_devices.iter().filter(|device| device.is_volume()).filter_map(|device| device.volume_id).collect();
    asked.api.volumes.check_room_for_snapshots(volumes).await.map_err(|error| match error {
        ServiceError::OverLimit(why) => forbidden(why),
        other => service_error(other),
    })
}

/// Waits until the image has a record, so that a client that follows the answer finds it.
async fn await_image(asked: &ActionRequest<'_>, operation: Uuid, image: Uuid) {
    let made = async {
        while let Err(ServiceError::NotFound(_)) = asked.api.images.image(image).await {
            if asked.api.operations.failure(operation).await.is_ok_and(|why| why.is_some()) {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    // The operation goes on, and the server's instance action tells its end.
    let _ = tokio::time::timeout(PATIENCE, made).await;
}
