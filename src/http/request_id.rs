//! Request ids: every request gets one, every answer and every log line carries it (spec clients.md §3).

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest, web};

use crate::env::Env;

/// The id of the request at hand.
#[derive(Clone, Debug)]
struct RequestId(String);

/// The request's id (`req-` and a UUID); empty outside [`assign`].
pub fn of(request: &HttpRequest) -> String {
    request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default()
}

/// Middleware: gives the request its id and puts it into the answer's headers.
pub async fn assign<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let id = match request.app_data::<web::Data<Env>>() {
        Some(env) => format!("req-{}", env.uuid()),
        None => "req-00000000-0000-0000-0000-000000000000".to_owned(),
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.call(request).await?;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HeaderName::from_static("x-openstack-request-id"), value.clone());
        response.headers_mut().insert(HeaderName::from_static("x-compute-request-id"), value);
    }
    Ok(response)
}
