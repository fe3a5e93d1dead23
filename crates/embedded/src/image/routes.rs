//! The image API (Glance v2), under `/image`: its routes, and what the handlers of its resources share.

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use cellshift_domain::moment;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::roles;
use uuid::Uuid;

use super::{EmbeddedImage, images, import, json_schemas, members, tasks, versions};
use crate::ServiceError;
use crate::request_bodies::RequestBody;
use crate::resource;

pub use images::data::takes_a_stream;

/// The bodies of requests, by their requests.
pub const BODIES: &[&[RequestBody]] = &[images::routes::BODIES, import::routes::BODIES, members::routes::BODIES];

/// Registers the image API. It takes an [`crate::image::EmbeddedImage`] as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/image")
            .wrap(from_fn(roles::by_method))
            .configure(versions::configure)
            .configure(images::routes::configure)
            .configure(import::routes::configure)
            .configure(tasks::routes::configure)
            .configure(json_schemas::configure)
            .configure(images::data::configure)
            .configure(members::routes::configure)
            .configure(images::tags::configure),
    );
}

/// A request to the image API, and its sender.
pub(super) type Call = resource::Call<EmbeddedImage>;

pub(super) fn failed(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Image, error)
}

/// Parses an id in a path. Other text names no image, so the answer is 404.
pub(super) fn image_id(text: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::parse_str(text).ok();
    id.ok_or_else(|| ApiError::new(ErrorForm::Image, StatusCode::NOT_FOUND, format!("No image found with ID {text}")))
}

pub(super) fn time(time: chrono::NaiveDateTime) -> String {
    moment::seconds(time.and_utc())
}
