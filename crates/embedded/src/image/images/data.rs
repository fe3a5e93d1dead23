//! Uploads and downloads of an image's bytes. They are streams, so that the size does not matter.

pub mod range;

use actix_web::body::SizedStream;
use actix_web::error::PayloadError;
use actix_web::http::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderMap, IF_RANGE, RANGE};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, web};
use bytes::Bytes;
use cellshift_web::arrival;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json;
use cellshift_web::limits::Transfers;
use futures::channel::mpsc;
use futures::stream::unfold;
use futures::{SinkExt, Stream, StreamExt};
use uuid::Uuid;

use crate::ServiceError;
use crate::image::EmbeddedImage;
use crate::image::routes::{Call, failed, image_id};
use crate::image::{ImageData, ImageService};

/// The number of uploaded pieces that may wait for the disk. Beyond it the client is slowed down.
const QUEUE: usize = 4;
/// The media type of an image's bytes.
const BYTES: &str = "application/octet-stream";

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
    if !matches!(image.status.as_str(), "queued" | "saving") {
        return refuse(StatusCode::CONFLICT, format!("Image {id} has bytes already; its status is {}.", image.status));
    }
    // The payload cannot leave this thread, but the service needs a stream that can.
    let (pieces, queued) = mpsc::channel(QUEUE);
    // A task of its own, so that the upload is undone properly even if the client leaves and this handler is dropped.
    let storing = actix_web::rt::spawn(take(call.service, image.id, Box::pin(whole(queued))));
    // Answers at once, because the HTTP library closes the connection after a broken body.
    forward(payload, pieces).await.map_err(|error| arrival::broken(&error, ErrorForm::Image))?;
    let broke_off = |_| ApiError::new(ErrorForm::Image, StatusCode::INTERNAL_SERVER_ERROR, "The upload broke off.");
    storing.await.map_err(broke_off)?.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// A piece of a body, or its end.
enum Piece {
    Bytes(Bytes),
    End,
}

/// Forwards the request's body until it ends, breaks off, or the receiver is gone.
async fn forward(mut payload: web::Payload, mut pieces: mpsc::Sender<Piece>) -> Result<(), PayloadError> {
    while let Some(piece) = payload.next().await {
        if pieces.send(Piece::Bytes(piece?)).await.is_err() {
            return Ok(());
        }
    }
    // The receiver may be gone: then the upload has failed and reports that itself.
    let _ = pieces.send(Piece::End).await;
    Ok(())
}

/// Returns the forwarded body as a stream. Without an end marker the body broke off.
fn whole(pieces: mpsc::Receiver<Piece>) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.next().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(pieces))),
            Some(Piece::End) => None,
            None => Some((Err(std::io::ErrorKind::UnexpectedEof.into()), None)),
        }
    })
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
    let part = requested_part(call.request.headers(), size)?;
    let transferring = call.request.app_data::<Transfers>().map(|transfers| transfers.0.enter(ErrorForm::Image)).transpose()?;
    let (first, length) = part.unwrap_or((0, size));
    let data = call.service.download_part(image.id, first, length).await.map_err(failed)?;
    // The transfer counts until the client has read everything.
    let data = data.map(move |piece| {
        let _transferring = &transferring;
        piece
    });
    let mut response = HttpResponse::Ok();
    if part.is_some() {
        response.status(StatusCode::PARTIAL_CONTENT);
        response.insert_header((CONTENT_RANGE, format!("bytes {first}-{}/{size}", first + length - 1)));
    }
    response.insert_header((ACCEPT_RANGES, "bytes"));
    Ok(response.content_type(BYTES).body(SizedStream::new(length, data)))
}

/// Returns the first byte and the length of the requested part; none for the whole. With `If-Range` the whole is sent, because an image has
/// no validator that `If-Range` could name.
fn requested_part(headers: &HeaderMap, size: u64) -> Result<Option<(u64, u64)>, ApiError> {
    match headers.get(RANGE) {
        Some(range_header) if !headers.contains_key(IF_RANGE) => {
            let part = range_header.to_str().ok().ok_or(range::Unsatisfiable::Malformed).and_then(|text| range::of(text, size));
            part.map(Some).map_err(|why| ApiError::new(ErrorForm::Image, StatusCode::RANGE_NOT_SATISFIABLE, why.to_string()))
        }
        _ => Ok(None),
    }
}
