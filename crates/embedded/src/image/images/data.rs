//! Uploads and downloads of an image's bytes. They are streams, so that the size does not matter.

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, web};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::limits::Transfers;
use cellshift_web::range::{BYTES, Part};
use cellshift_web::{json, streamed};
use uuid::Uuid;

use crate::ServiceError;
use crate::image::EmbeddedImage;
use crate::image::routes::{Call, failed, image_id};
use crate::image::{ImageData, ImageService};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/file").route(web::put().to(upload)).route(web::get().to(download)));
    cfg.service(web::resource("/v2/images/{id}/stage").route(web::put().to(stage)));
}

/// True if the request's body is an image's data, which are streamed and never held in memory as a whole.
pub fn takes_a_stream(method: &Method, path: &str) -> bool {
    method == Method::PUT && path.starts_with("/image/v2/images/") && (path.ends_with("/file") || path.ends_with("/stage"))
}

async fn upload(call: Call, id: web::Path<String>, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    receive(call, &id, payload, |images, id, data| async move { images.upload(id, data).await.map(drop) }).await
}

/// Takes bytes that an import will make the image's.
async fn stage(call: Call, id: web::Path<String>, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    receive(call, &id, payload, |images, id, data| async move { images.stage(id, data).await }).await
}

/// Has `take` store the body as the bytes of an image that has none.
async fn receive<F: Future<Output = Result<(), ServiceError>> + 'static>(
    call: Call,
    id: &str,
    payload: web::Payload,
    take: impl FnOnce(web::Data<EmbeddedImage>, Uuid, ImageData) -> F + 'static,
) -> Result<HttpResponse, ApiError> {
    let refuse = |status, message: String| Err(ApiError::new(ErrorForm::Image, status, message));
    let media_type = json::media_type(&call.request);
    if media_type.as_deref() != Some(BYTES) {
        return Err(json::unsupported(ErrorForm::Image, media_type.as_deref(), BYTES));
    }
    let image = call.service.own_image(&call.caller.0, image_id(id)?).await.map_err(failed)?;
    if !image.takes_bytes() {
        return refuse(StatusCode::CONFLICT, format!("Image {id} has bytes already; its status is {}.", image.status));
    }
    streamed::store(ErrorForm::Image, payload, |data| take(call.service, image.id, data)).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn download(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let image = call.service.visible_image(&call.caller.0, image_id(&id)?).await.map_err(failed)?;
    if image.status == "deactivated" && !call.caller.0.is_admin() {
        let message = "The requested image has been deactivated. Image data download is forbidden.";
        return Err(ApiError::new(ErrorForm::Image, StatusCode::FORBIDDEN, message));
    }
    let Some(size) = image.size.and_then(|size| u64::try_from(size).ok()).filter(|_| image.has_bytes()) else {
        return Ok(HttpResponse::NoContent().finish());
    };
    let part = Part::requested(call.request.headers(), size, ErrorForm::Image)?;
    let transfer = Transfers::begin(&call.request, ErrorForm::Image)?;
    let data = call.service.download_part(image.id, part.first, part.length).await.map_err(failed)?;
    Ok(part.answer(data, transfer))
}
