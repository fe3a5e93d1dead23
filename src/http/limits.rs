//! Bounds at the door: how many requests are in flight, how long each may wait for cells, and how large a body may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::{PathError, QueryPayloadError};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::{HttpRequest, web};

use super::error::{ApiError, ErrorForm};
use super::image;
use super::json::MaxBody;
use crate::actors::cell::request_clock;

/// Seconds after which a refused client may try again.
const RETRY_AFTER: u32 = 1;

/// Counts the requests that all workers have in hand. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct InFlight {
    now: Arc<AtomicUsize>,
    most: usize,
}

impl InFlight {
    /// At most `most` requests at once. The sending of an answer's body is not counted.
    pub fn new(most: usize) -> InFlight {
        InFlight { now: Arc::new(AtomicUsize::new(0)), most }
    }

    /// Takes a place until the guard is dropped; refuses with 503, in this form, when there is none.
    pub fn enter(&self, form: ErrorForm) -> Result<Entered, ApiError> {
        let entered = Entered { now: self.now.clone() };
        // Counted before it is judged, so that two that come at once cannot both be the last.
        match self.now.fetch_add(1, Ordering::Relaxed) < self.most {
            true => Ok(entered),
            false => Err(busy(form, "Too many requests are in flight. Try again shortly.")),
        }
    }
}

/// 503, for a client that comes back soon.
pub fn busy(form: ErrorForm, message: &str) -> ApiError {
    let mut error = ApiError::new(form, StatusCode::SERVICE_UNAVAILABLE, message);
    error.retry_after = Some(RETRY_AFTER);
    error
}

/// Transfers of images' data, which last as long as their clients take: counted apart, so that they keep no other request out.
#[derive(Clone)]
pub struct Transfers(pub InFlight);

/// One request in hand; leaving it, however, gives its place back.
pub struct Entered {
    now: Arc<AtomicUsize>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The path that is answered whatever else is at work.
pub const HEALTH_CHECK: &str = "/healthcheck";

/// Middleware: refuses a request past the limit with 503. The health check is never refused.
pub async fn admit<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let limit = match image::takes_a_stream(request.method(), request.path()) {
        true => request.app_data::<Transfers>().map(|transfers| transfers.0.clone()),
        false => request.app_data::<InFlight>().cloned(),
    };
    let _entered = match limit {
        Some(limit) if request.path() != HEALTH_CHECK => Some(limit.enter(ErrorForm::for_path(request.path()))?),
        _ => None,
    };
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// How long a request may wait for cells.
#[derive(Clone, Copy, Debug)]
pub struct CellTimeout(pub Duration);

/// Middleware: gives each request a clock for its calls on cells.
pub async fn time<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, actix_web::Error> {
    match request.app_data::<CellTimeout>().copied() {
        Some(CellTimeout(whole)) => request_clock::within(whole, next.call(request)).await,
        None => next.call(request).await,
    }
}

/// Registers the bound on bodies that handlers take whole, in bytes, and the errors of bodies, paths and queries that do not
/// parse. Handlers that take a body as a stream (an image's bytes) are not bound by it.
pub fn configure_bodies(config: &mut web::ServiceConfig, max_body: usize) {
    config
        .app_data(web::PayloadConfig::new(max_body))
        .app_data(MaxBody(max_body))
        .app_data(web::PathConfig::default().error_handler(|e, r| path_error(&e, r).into()))
        .app_data(web::QueryConfig::default().error_handler(|e, r| query_error(&e, r).into()));
}

/// A path whose parts do not parse names nothing that exists.
fn path_error(_: &PathError, request: &HttpRequest) -> ApiError {
    ApiError::new(ErrorForm::for_path(request.path()), StatusCode::NOT_FOUND, "The resource could not be found.")
}

fn query_error(error: &QueryPayloadError, request: &HttpRequest) -> ApiError {
    ApiError::new(ErrorForm::for_path(request.path()), StatusCode::BAD_REQUEST, format!("Invalid query: {error}."))
}
