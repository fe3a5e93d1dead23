//! The image API (Glance v2), under `/image`: one file per resource.

mod attributes;
mod data;
mod images;
mod import;
mod listing;
mod members;
mod schemas;
mod tags;
mod tasks;
#[cfg(test)]
mod tests;
mod versions;

pub use data::takes_a_stream;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use cellshift_domain::moment;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::roles;
use uuid::Uuid;

use super::request_bodies::RequestBody;
use crate::ServiceError;

/// The bodies of requests, by their requests.
pub const BODIES: &[&[RequestBody]] = &[images::BODIES, import::BODIES, members::BODIES];

/// Registers the image API. It takes an [`crate::image::embedded::EmbeddedImage`] as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/image")
            .wrap(from_fn(roles::by_method))
            .configure(versions::configure)
            .configure(images::configure)
            .configure(import::configure)
            .configure(tasks::configure)
            .configure(schemas::configure)
            .configure(data::configure)
            .configure(members::configure)
            .configure(tags::configure),
    );
}

fn failed(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Image, error)
}

/// Parses an id in a path. Other text names no image, so the answer is 404.
fn image_id(text: &str) -> Result<Uuid, ApiError> {
    let id = Uuid::parse_str(text).ok();
    id.ok_or_else(|| ApiError::new(ErrorForm::Image, StatusCode::NOT_FOUND, format!("No image found with ID {text}")))
}

fn time(time: chrono::NaiveDateTime) -> String {
    moment::seconds(time.and_utc())
}
