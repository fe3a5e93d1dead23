//! Authentication at the door: every path needs a valid `X-Auth-Token`, except the few that answer anybody (spec clients.md §1).

use std::future::{Ready, ready};

use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};

use super::error::{ApiError, ErrorForm};
use super::request_id;
use crate::domain::context::RequestContext;
use crate::services::ServiceError;
use crate::services::identity::Authenticator;

/// The caller whom the token names. As a handler's parameter it answers 401, in the form of the path's API, when there is none.
#[derive(Clone, Debug)]
pub struct Caller(pub RequestContext);

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Caller, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Caller>().cloned().ok_or_else(|| unauthorized(request.path())))
    }
}

/// What a request without any token may do; absent, such a request is refused.
#[derive(Clone, Debug)]
pub struct Anonymous(pub RequestContext);

/// Middleware: puts the [`Caller`] into the request, or refuses it.
pub async fn authenticate<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let path = request.path().to_owned();
    if !is_open(request.method(), &path) {
        let mut context = match (request.headers().get("X-Auth-Token"), request.app_data::<web::Data<Anonymous>>()) {
            (Some(token), _) => {
                let token = token.to_str().map_err(|_| unauthorized(&path))?.to_owned();
                let authenticator = request.app_data::<web::Data<dyn Authenticator>>().cloned();
                let authenticator = authenticator.ok_or_else(|| unauthorized(&path))?;
                authenticator.validate(&token).await.map_err(|error| refused(&path, error))?
            }
            (None, Some(anonymous)) => anonymous.0.clone(),
            (None, None) => return Err(unauthorized(&path).into()),
        };
        context.request_id = request_id::of(request.request());
        request.extensions_mut().insert(Caller(context));
    }
    next.call(request).await
}

/// True for what answers without a token: version documents, issuing tokens, the health check.
fn is_open(method: &Method, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    if method == Method::POST {
        return path == "/identity/v3/auth/tokens";
    }
    let documents = [
        "",
        "/healthcheck",
        "/identity",
        "/identity/v3",
        "/compute",
        "/compute/v2",
        "/compute/v2.1",
        "/image",
        "/network",
        "/volume",
        "/volume/v3",
        "/placement",
        "/ops/v1/openapi.json",
    ];
    (method == Method::GET || method == Method::HEAD) && documents.contains(&path)
}

fn unauthorized(path: &str) -> ApiError {
    let mut error =
        ApiError::new(ErrorForm::for_path(path), StatusCode::UNAUTHORIZED, "The request you have made requires authentication.");
    error.challenge = true;
    error
}

fn refused(path: &str, error: ServiceError) -> ApiError {
    match error {
        ServiceError::Unavailable { .. } => ApiError::from_service(ErrorForm::for_path(path), error),
        _ => unauthorized(path),
    }
}
