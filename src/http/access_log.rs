//! Logs one line per request, and counts the request.

use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web;

use super::compute::servers::consoles;
use super::{clients, request_id, spans};
use crate::env::Env;

/// Middleware: logs the client, the request and its answer, and counts it under the pattern of its route. A server error is a warning.
pub async fn record<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    // The duration is for operators only; no decision depends on it.
    let start = Instant::now();
    let request_id = request_id::of(request.request());
    let method = request.method().clone();
    let path = request.path().to_owned();
    // The token of a console is in its query.
    let query = if path == consoles::SOCKET { String::new() } else { request.query_string().to_owned() };
    let peer = clients::address(request.request()).map(|address| address.to_string()).unwrap_or_default();
    let env = request.app_data::<web::Data<Env>>().cloned();
    let span = env.as_ref().and_then(|env| spans::begin(&request, env, &request_id));
    let metrics = env.as_ref().map(|env| env.metrics().clone());
    let _in_flight = metrics.as_ref().and_then(|metrics| metrics.request_begins());
    let result = next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    let status = match &result {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    // A request that a middleware refused has found no route.
    let route = result.as_ref().ok().and_then(|response| response.request().match_pattern());
    if let (Some(span), Some(env)) = (span, &env) {
        spans::end(span, env, &request_id, (method.as_str(), route.as_deref(), status.as_u16()));
    }
    if let Some(metrics) = metrics {
        metrics.request_ended(route.as_deref(), method.as_str(), status.as_u16(), start.elapsed());
    }
    let level = match (status.is_server_error(), path.as_str()) {
        (true, _) => log::Level::Warn,
        (false, "/healthcheck" | "/ready") => log::Level::Trace,
        (false, _) => log::Level::Debug,
    };
    let target = if query.is_empty() { path } else { format!("{path}?{query}") };
    log::log!(
        level,
        request_id = request_id,
        method = method.as_str(),
        status = status.as_u16(),
        milliseconds = start.elapsed().as_millis() as u64,
        peer = peer;
        "{method} {} {target}", status.as_u16()
    );
    result
}
