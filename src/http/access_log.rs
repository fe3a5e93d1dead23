//! Logs one line per request.

use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;

use super::compute::servers::consoles;
use super::{clients, request_id};

/// Middleware: logs the client, the request and its answer. A server error is a warning.
pub async fn record<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    // The duration is for operators only; no decision depends on it.
    let begun = Instant::now();
    let request_id = request_id::of(request.request());
    let method = request.method().clone();
    let path = request.path().to_owned();
    // The token of a console is in its query.
    let query = if path == consoles::SOCKET { String::new() } else { request.query_string().to_owned() };
    let peer = clients::address(request.request()).map(|address| address.to_string()).unwrap_or_default();
    let result = next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    let status = match &result {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    let level = match (status.is_server_error(), path.as_str()) {
        (true, _) => log::Level::Warn,
        (false, "/healthcheck") => log::Level::Debug,
        (false, _) => log::Level::Info,
    };
    let target = if query.is_empty() { path } else { format!("{path}?{query}") };
    log::log!(
        level,
        request_id = request_id,
        method = method.as_str(),
        status = status.as_u16(),
        milliseconds = begun.elapsed().as_millis() as u64,
        peer = peer;
        "{target}"
    );
    result
}
