//! Turns a panic in a handler into a 500 with the request's id, instead of a dropped connection.

use std::panic::AssertUnwindSafe;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use futures::FutureExt;

use crate::error::ApiError;
use crate::{apis, request_id};

/// Middleware: catches panics of handlers. A panic cannot leave half-changed shared state, because all state lives behind databases and
/// actors.
pub async fn catch<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let form = apis::form(request.request());
    let id = request_id::of(request.request());
    match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(result) => result.map(ServiceResponse::map_into_boxed_body),
        Err(panic) => {
            log::error!(request_id = id; "a handler panicked: {}", said(panic.as_ref()));
            let message = format!("Unexpected API Error. It is in the log under the request id {id}.");
            Err(ApiError::new(form, StatusCode::INTERNAL_SERVER_ERROR, message).into())
        }
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "(no message)",
    }
}
