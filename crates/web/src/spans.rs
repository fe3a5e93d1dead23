//! The span of each request, if traces are made. It belongs to the span that the header `traceparent` names, or begins a trace of its own, which has
//! the id of the request.

use actix_web::dev::ServiceRequest;
use actix_web::{HttpMessage, HttpRequest};
use cellshift_domain::trace::TraceContext;
use cellshift_env::Env;
use cellshift_env::traces::{Span, Value};
use chrono::{DateTime, Utc};
use uuid::Uuid;

const HEADER: &str = "traceparent";

/// The span of a request that is being answered.
#[derive(Clone, Copy)]
pub struct RequestSpan {
    own: TraceContext,
    parent: Option<u64>,
    begun_at: DateTime<Utc>,
}

/// Returns the span of the request, for the work that it begins; none if no trace is made.
pub fn of(request: &HttpRequest) -> Option<TraceContext> {
    request.extensions().get::<RequestSpan>().map(|span| span.own)
}

/// Begins the span of a request; none if no trace is made.
pub fn begin(request: &ServiceRequest, env: &Env, request_id: &str) -> Option<RequestSpan> {
    if !env.traces().is_on() {
        return None;
    }
    let sent: Option<TraceContext> = request.headers().get(HEADER).and_then(|text| text.to_str().ok()).and_then(|text| text.parse().ok());
    let own_trace = || request_id.strip_prefix("req-").and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_else(|| env.uuid()).as_u128();
    let own = TraceContext { trace: sent.map_or_else(own_trace, |sent| sent.trace), span: TraceContext::span_of(env.uuid()) };
    let span = RequestSpan { own, parent: sent.map(|sent| sent.span), begun_at: env.now() };
    request.extensions_mut().insert(span);
    Some(span)
}

/// Tells the span of an answered request.
pub fn end(span: RequestSpan, env: &Env, request_id: &str, (method, route, status): (&str, Option<&str>, u16)) {
    let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
    let mut attributes = vec![
        ("http.request.method", Value::Text(method.to_owned())),
        ("http.response.status_code", Value::Number(status.into())),
        ("cellshift.request_id", Value::Text(request_id.to_owned())),
    ];
    attributes.extend(route.map(|route| ("http.route", Value::Text(route.to_owned()))));
    let error = (status >= 500).then(|| format!("answered with {status}"));
    let RequestSpan { own, parent, begun_at } = span;
    env.traces().tell([Span { context: own, parent, name, is_request: true, begun_at, ended_at: env.now(), attributes, error }]);
}
