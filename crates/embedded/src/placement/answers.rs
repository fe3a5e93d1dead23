//! The headers that all of placement's answers share.

use std::time::SystemTime;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, Accept, CacheControl, CacheDirective, Header, HeaderName, HeaderValue, LastModified};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, mime, web};
use cellshift_env::Env;
use cellshift_web::microversion::ApiVersion;

use super::routes::error;

/// The minor version from which answers say that they must not be cached, and of when they are.
const CACHE_HEADERS: u16 = 15;

/// Middleware: 406 for a client that takes no JSON, and the headers about caching. No time of a change is stored, so an answer is of now.
pub(super) async fn complete<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let is_read = request.method() == Method::GET;
    let is_unfit = is_read && !takes_json(&request);
    let is_of_trait = request.path().starts_with("/placement/traits/") && request.method() == Method::PUT;
    let version = request.extensions().get::<ApiVersion>().copied();
    let now = request.app_data::<web::Data<Env>>().map(|env| SystemTime::from(env.now()));
    let mut response = next.call(request).await?.map_into_boxed_body();
    if is_unfit && response.status().is_success() {
        return Ok(response.error_response(error(StatusCode::NOT_ACCEPTABLE, "Only application/json is provided")));
    }
    let describes = (is_read && response.status().is_success()) || response.status() == StatusCode::OK || is_of_trait;
    if describes && version.is_some_and(|version| version.at_least(CACHE_HEADERS)) {
        let uncached = CacheControl(vec![CacheDirective::NoCache]).to_string();
        insert(&mut response, header::CACHE_CONTROL, &uncached);
        if let Some(now) = now {
            insert(&mut response, header::LAST_MODIFIED, &LastModified(now.into()).to_string());
        }
    }
    Ok(response)
}

fn insert(response: &mut ServiceResponse<BoxBody>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn takes_json(request: &ServiceRequest) -> bool {
    if !request.headers().contains_key(header::ACCEPT) {
        return true;
    }
    let Ok(accept) = Accept::parse(request) else { return true };
    let fits = |range: &mime::Mime| {
        range.type_() == mime::STAR || (range.type_() == mime::APPLICATION && matches!(range.subtype(), mime::STAR | mime::JSON))
    };
    accept.0.is_empty() || accept.0.iter().any(|item| item.quality != header::Quality::ZERO && fits(&item.item))
}
