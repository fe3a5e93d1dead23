//! Bounds at the door: the number of requests in flight, and the size of a body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::{PathError, QueryPayloadError};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::{HttpRequest, web};

use crate::apis::{self, Apis};
use crate::error::{ApiError, ErrorForm};
use crate::json::MaxBody;

/// The seconds after which a refused client may try again.
const RETRY_AFTER: u32 = 1;

/// Counts the requests in flight of all workers. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct InFlight {
    now: Arc<AtomicUsize>,
    most: usize,
}

impl InFlight {
    /// Allows at most `most` requests at once. Sending an answer's body does not count.
    pub fn new(most: usize) -> InFlight {
        InFlight { now: Arc::new(AtomicUsize::new(0)), most }
    }

    /// Takes a place until the guard is dropped. Refuses with 503, in this form, if there is none.
    pub fn enter(&self, form: ErrorForm) -> Result<Entered, ApiError> {
        let entered = Entered { now: self.now.clone() };
        // Counts before it compares, so that two concurrent requests cannot both take the last place.
        match self.now.fetch_add(1, Ordering::Relaxed) < self.most {
            true => Ok(entered),
            false => Err(busy(form, "Too many requests are in flight. Try again shortly.")),
        }
    }
}

/// Makes a 503 that asks the client to come back soon.
pub fn busy(form: ErrorForm, message: &str) -> ApiError {
    let mut error = ApiError::new(form, StatusCode::SERVICE_UNAVAILABLE, message);
    error.retry_after = Some(RETRY_AFTER);
    error
}

/// Counts requests with a streamed body separately. They last as long as their clients need, and must not block other requests.
#[derive(Clone)]
pub struct Transfers(pub InFlight);

impl Transfers {
    /// Counts the answer to this request as a transfer until the guard is dropped. Refuses with 503 if there are too many; none if the
    /// application has no limit.
    pub fn begin(request: &HttpRequest, form: ErrorForm) -> Result<Option<Entered>, ApiError> {
        request.app_data::<Transfers>().map(|transfers| transfers.0.enter(form)).transpose()
    }
}

/// A request in flight. Dropping it returns its place.
pub struct Entered {
    now: Arc<AtomicUsize>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The path that is answered at any load.
pub const HEALTH_CHECK: &str = "/healthcheck";

/// Middleware: refuses a request over the limit with 503. The health check is never refused.
pub async fn admit<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let limit = match (Apis::of(request.request()).takes_a_stream)(request.method(), request.path()) {
        true => request.app_data::<Transfers>().map(|transfers| transfers.0.clone()),
        false => request.app_data::<InFlight>().cloned(),
    };
    let _entered = match limit {
        Some(limit) if request.path() != HEALTH_CHECK => Some(limit.enter(apis::form(request.request()))?),
        _ => None,
    };
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// Registers the maximum size of bodies that handlers read whole, and the errors for malformed bodies, paths and queries. Handlers that
/// stream a body (an image's bytes) have no maximum.
pub fn configure_bodies(config: &mut web::ServiceConfig, max_body: usize) {
    config
        .app_data(web::PayloadConfig::new(max_body))
        .app_data(MaxBody(max_body))
        .app_data(web::PathConfig::default().error_handler(|e, r| path_error(&e, r).into()))
        .app_data(web::QueryConfig::default().error_handler(|e, r| query_error(&e, r).into()));
}

/// A path with a malformed part names nothing that exists.
fn path_error(_: &PathError, request: &HttpRequest) -> ApiError {
    ApiError::unrouted(apis::form(request), StatusCode::NOT_FOUND, "The resource could not be found.")
}

fn query_error(error: &QueryPayloadError, request: &HttpRequest) -> ApiError {
    ApiError::new(apis::form(request), StatusCode::BAD_REQUEST, format!("Invalid query: {error}."))
}
