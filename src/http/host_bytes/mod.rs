//! The bytes of images for hosts that are agents. The right is a ticket that a controller gave the host, not a token: it is for one image
//! and one direction ([`Tickets`]). The operation that needs the bytes was judged when the ticket was given (INVARIANTS S12), and is not
//! judged again here.

#[cfg(test)]
mod tests;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::error::{ApiError, ErrorForm};
use super::limits::Transfers;
use super::range::{BYTES, Part};
use super::{json, streamed};
use crate::actors::compute_host::tickets::{Access, IMAGES, NotAllowed, Tickets};
use crate::domain::host_protocol::{Asker, TICKET_HEADER};
use crate::services::image::ImageService;

const FORM: ErrorForm = ErrorForm::Compute;

/// Registers the routes. They take the [`Tickets`] and the `dyn ImageService` as `web::Data`.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(web::resource(format!("{IMAGES}/{{image}}")).route(web::get().to(download)).route(web::put().to(upload)));
}

/// True for requests whose right is a ticket.
pub fn is_open(method: &Method, path: &str) -> bool {
    [Method::GET, Method::PUT].contains(method) && is_below(path)
}

/// True if the request's body is an image's bytes.
pub fn takes_a_stream(method: &Method, path: &str) -> bool {
    method == Method::PUT && is_below(path)
}

fn is_below(path: &str) -> bool {
    path.strip_prefix(IMAGES).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the image of the path and the host that has a ticket for it.
fn admit(request: &HttpRequest, image: &str, tickets: &Tickets, access: Access) -> Result<(Uuid, Asker), ApiError> {
    let secret = request.headers().get(TICKET_HEADER).and_then(|secret| secret.to_str().ok()).unwrap_or_default();
    let holder = match Uuid::parse_str(image) {
        Ok(image) => tickets.check(secret, image, access).map(|host| (image, host)),
        Err(_) => Err(NotAllowed::Unknown),
    };
    holder.map_err(|why| {
        let status = match why {
            NotAllowed::Unknown => StatusCode::UNAUTHORIZED,
            NotAllowed::Elsewhere => StatusCode::FORBIDDEN,
        };
        ApiError::new(FORM, status, why.to_string())
    })
}

async fn download(
    request: HttpRequest,
    image: web::Path<String>,
    tickets: web::Data<Tickets>,
    images: web::Data<dyn ImageService>,
) -> Result<HttpResponse, ApiError> {
    let (id, host) = admit(&request, &image, &tickets, Access::Read)?;
    let image = images.image(id).await.map_err(|error| ApiError::from_service(FORM, error))?;
    let size = image.size.and_then(|size| u64::try_from(size).ok()).filter(|_| image.status == "active");
    let without_bytes = || ApiError::new(FORM, StatusCode::CONFLICT, format!("Image {id} is {}: it has no bytes.", image.status));
    let part = Part::requested(request.headers(), size.ok_or_else(without_bytes)?, FORM)?;
    let transfer = Transfers::begin(&request, FORM)?;
    let data = images.download_part(id, part.first, part.length).await.map_err(|error| ApiError::from_service(FORM, error))?;
    log::debug!(host = host.host.as_str(), image = id.to_string().as_str(); "a host reads an image from byte {} on", part.first);
    Ok(part.answer(data, transfer))
}

/// How an upload is stored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Storing {
    /// True if a power cut may lose the bytes, because the host keeps them until their receiver has verified them.
    #[serde(default)]
    in_passing: bool,
}

async fn upload(
    request: HttpRequest,
    image: web::Path<String>,
    storing: web::Query<Storing>,
    tickets: web::Data<Tickets>,
    images: web::Data<dyn ImageService>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (id, host) = admit(&request, &image, &tickets, Access::Write)?;
    let media_type = json::media_type(&request);
    if media_type.as_deref() != Some(BYTES) {
        return Err(json::unsupported(FORM, media_type.as_deref(), BYTES));
    }
    let image = images.image(id).await.map_err(|error| ApiError::from_service(FORM, error))?;
    if !image.takes_bytes() {
        let message = format!("Image {id} has bytes already; its status is {}.", image.status);
        return Err(ApiError::new(FORM, StatusCode::CONFLICT, message));
    }
    log::debug!(host = host.host.as_str(), image = id.to_string().as_str(); "a host stores an image");
    let sha256 = streamed::store(FORM, payload, |data| async move {
        match storing.in_passing {
            true => images.upload_in_passing(id, data).await,
            false => images.upload(id, data).await,
        }
    });
    Ok(HttpResponse::Ok().json(json!({"sha256": sha256.await?})))
}
