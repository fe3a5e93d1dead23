//! An image's bytes: uploaded and downloaded as streams, so that their size does not matter.

use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use futures::{SinkExt, StreamExt};

use super::{failed, image_id};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};
use crate::services::image::ImageService;
use crate::services::image::embedded::EmbeddedImage;

/// Pieces of an upload that may wait for the disk; past it the client is slowed down.
const QUEUE: usize = 4;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/file").route(web::put().to(upload)).route(web::get().to(download)));
}

async fn upload(
    request: HttpRequest,
    images: web::Data<EmbeddedImage>,
    caller: Caller,
    id: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let refuse = |status, message: String| Err(ApiError::new(ErrorForm::Image, status, message));
    let content_type = request.headers().get("Content-Type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type != "application/octet-stream" {
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("Content type {content_type} is not supported: send application/octet-stream."),
        );
    }
    let image = images.own_image(&caller.0, image_id(&id)?).await.map_err(failed)?;
    if image.status == "active" {
        return refuse(StatusCode::CONFLICT, format!("Image {id} has bytes already; its status is active."));
    }
    // The payload belongs to this thread; the service takes a stream that may travel.
    let (pieces, data) = futures::channel::mpsc::channel(QUEUE);
    let (_, stored) = futures::join!(forward(payload, pieces), images.upload(image.id, Box::pin(data)));
    stored.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Passes the request's body on until it ends, breaks off or nobody listens any more.
async fn forward(mut payload: web::Payload, mut pieces: futures::channel::mpsc::Sender<std::io::Result<bytes::Bytes>>) {
    while let Some(piece) = payload.next().await {
        let piece = piece.map_err(std::io::Error::other);
        let ended = piece.is_err();
        if pieces.send(piece).await.is_err() || ended {
            return;
        }
    }
}

async fn download(images: web::Data<EmbeddedImage>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let image = images.visible_image(&caller.0, image_id(&id)?).await.map_err(failed)?;
    let Some(size) = image.size.and_then(|size| u64::try_from(size).ok()).filter(|_| image.status == "active") else {
        return Ok(HttpResponse::NoContent().finish());
    };
    let (_, data) = images.download(image.id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().content_type("application/octet-stream").body(SizedStream::new(size, data)))
}
