//! The door of the page, before that of the APIs. A request below `/ui/api` becomes the request to the public route that follows, with the
//! session's token: it is authenticated, limited, logged and answered as any other.

use std::fmt;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, SET_COOKIE, UPGRADE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::http::uri::PathAndQuery;
use actix_web::http::{Method, StatusCode, Uri};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpResponse, ResponseError};

use super::{FOLDER, origin, session};
use crate::http::error::{ApiError, ErrorForm};

/// The folder of the public routes.
const API: &str = "/ui/api";

/// The APIs that the page uses, by their first segment. Identity is none of them: it would tell scripts the token.
const REACHED: [&str; 6] = ["compute", "image", "network", "ops", "placement", "volume"];

/// The only part of identity that the page uses: it reads the names of projects.
const PROJECTS: &str = "/identity/v3/projects";

const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// Scripts, styles and answers come from the service alone, nothing is written into the page, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The refusal of a request, until the door of the APIs has given it an id.
struct Refusal(ApiError);

/// Middleware, the outermost: gives requests of the page their token and their public path.
pub async fn enter<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let below = request.path().strip_prefix(FOLDER);
    if !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let token = session::token(request.headers());
    let mut added = headers();
    let is_asset = !request.path().starts_with(API) && below != Some("/session");
    added.push((CACHE_CONTROL, HeaderValue::from_static(if is_asset { "no-cache" } else { "no-store" })));
    let removal = token.as_ref().and_then(|_| HeaderValue::from_str(&session::expired_cookie(request.request())).ok());
    if let Err(refusal) = admit(&mut request, token) {
        request.extensions_mut().insert(Refusal(refusal));
    }
    let complete = |headers: &mut HeaderMap, status| {
        for (name, value) in added {
            headers.insert(name, value);
        }
        // The session is over or was never one.
        if let Some(removal) = removal.filter(|_| status == StatusCode::UNAUTHORIZED) {
            headers.insert(SET_COOKIE, removal);
        }
    };
    match next.call(request).await {
        Ok(response) => {
            let mut response = response.map_into_boxed_body();
            let status = response.status();
            complete(response.headers_mut(), status);
            Ok(response)
        }
        Err(error) => {
            let (status, mut headers) = (error.as_response_error().status_code(), HeaderMap::new());
            complete(&mut headers, status);
            Err(Completed { error, headers }.into())
        }
    }
}

/// Middleware, within the one that gives ids: answers what [`enter`] refused.
pub async fn refuse<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let refusal = request.extensions_mut().remove::<Refusal>();
    match refusal {
        Some(Refusal(refusal)) => Ok(request.error_response(refusal)),
        None => Ok(next.call(request).await?.map_into_boxed_body()),
    }
}

/// Checks where the request comes from, and changes its headers and its path.
fn admit(request: &mut ServiceRequest, token: Option<HeaderValue>) -> Result<(), ApiError> {
    let below = request.path().strip_prefix(FOLDER).unwrap_or_default();
    // The files are no secret, and a link elsewhere may lead to the page.
    let is_guarded = ["/session", "/login", "/logout"].contains(&below) || below == "/api" || below.starts_with("/api/");
    if !is_guarded {
        return Ok(());
    }
    if let Some(why) = origin::objection(request.request()) {
        return Err(ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, why));
    }
    let public = match request.path().strip_prefix(API) {
        Some(public) => Some(public_uri(public, request.method(), request.uri()).ok_or_else(not_reached)?),
        None => None,
    };
    if public.is_some() {
        request.headers_mut().remove(TOKEN);
        // A console has a door and a token of its own.
        request.headers_mut().remove(UPGRADE);
    }
    if let Some(token) = token {
        request.headers_mut().insert(TOKEN, token);
    }
    if let Some(uri) = public {
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
    Ok(())
}

/// Returns the address of the public route; none if the page does not use its API.
fn public_uri(path: &str, method: &Method, uri: &Uri) -> Option<Uri> {
    let reads_projects = path == PROJECTS && *method == Method::GET;
    if !reads_projects && !REACHED.contains(&path.split('/').nth(1)?) {
        return None;
    }
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

fn not_reached() -> ApiError {
    let message = format!("The page's session reaches {} and the list of projects only.", REACHED.join(", "));
    ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, message)
}

fn headers() -> Vec<(HeaderName, HeaderValue)> {
    vec![
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ]
}

/// An error whose answer has the page's headers.
#[derive(Debug)]
struct Completed {
    error: actix_web::Error,
    headers: HeaderMap,
}

impl fmt::Display for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl ResponseError for Completed {
    fn status_code(&self) -> StatusCode {
        self.error.as_response_error().status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = self.error.error_response();
        for (name, value) in &self.headers {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        response
    }
}
