//! Microversions: negotiates the version for the handlers, and names it in each answer.

use std::future::{Ready, ready};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue, VARY};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use cellshift_domain::microversion::{Microversion, VersionError, VersionedApi};

use crate::apis::{self, Apis};
use crate::error::{ApiError, ErrorForm};

/// The API version of the request. As a handler's parameter it is [`Apis::unversioned`] if the path has no microversions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ApiVersion(pub Microversion);

impl ApiVersion {
    /// True for this minor version and later ones.
    pub fn at_least(self, minor: u16) -> bool {
        self.0.minor >= minor
    }

    /// True for this minor version and earlier ones.
    pub fn at_most(self, minor: u16) -> bool {
        self.0.minor <= minor
    }
}

impl FromRequest for ApiVersion {
    type Error = ApiError;
    type Future = Ready<Result<ApiVersion, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let negotiated = request.extensions().get::<ApiVersion>().copied();
        ready(Ok(negotiated.unwrap_or_else(|| ApiVersion(Apis::of(request).unversioned))))
    }
}

/// Middleware: negotiates the version or refuses the request.
pub async fn negotiate<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let form = apis::form(request.request());
    let Some(api) = (apis::of(request.request()).versions)(request.path()) else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    let headers = request.headers();
    let standard = headers.get_all("OpenStack-API-Version").filter_map(|value| value.to_str().ok());
    let legacy = api.legacy_header.and_then(|name| headers.get(name)).and_then(|value| value.to_str().ok());
    match api.negotiate(standard, legacy) {
        Ok(version) => {
            request.extensions_mut().insert(ApiVersion(version));
            let mut response = next.call(request).await?.map_into_boxed_body();
            echo(&mut response, api, version);
            Ok(response)
        }
        Err(error) => {
            let status = match error {
                VersionError::Malformed(_) => StatusCode::BAD_REQUEST,
                VersionError::Unsupported { .. } => StatusCode::NOT_ACCEPTABLE,
            };
            let refusal = ApiError::new(form, status, explained(form, &error));
            Ok(request.error_response(match error {
                VersionError::Malformed(_) => refusal,
                VersionError::Unsupported { .. } => refusal.with_versions(api),
            }))
        }
    }
}

/// Returns the error in the words of its API.
fn explained(form: ErrorForm, error: &VersionError) -> String {
    match error {
        VersionError::Malformed(text) if form == ErrorForm::Placement => format!("invalid version string: {text}"),
        VersionError::Unsupported { version, .. } if form == ErrorForm::Placement => {
            format!("Unacceptable version header: {version}. {error}")
        }
        _ => error.to_string(),
    }
}

fn echo(response: &mut ServiceResponse<BoxBody>, api: &VersionedApi, version: Microversion) {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&format!("{} {version}", api.service)) {
        headers.insert(HeaderName::from_static("openstack-api-version"), value);
    }
    headers.append(VARY, HeaderValue::from_static("OpenStack-API-Version"));
    let Some(legacy) = api.legacy_header else { return };
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(legacy), HeaderValue::from_str(&version.to_string())) {
        headers.insert(name, value);
        headers.append(VARY, HeaderValue::from_static(legacy));
    }
}
