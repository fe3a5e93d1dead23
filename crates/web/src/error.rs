//! Errors in the form that each API's clients expect.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use cellshift_domain::failure::{Failure, FailureKind};
use cellshift_domain::microversion::VersionedApi;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_neighbours::ServiceError;
use serde_json::{Value, json};

use crate::apis::Api;
use crate::microversion::ApiVersion;
use crate::request_id;

/// The minor version from which placement's errors have a code for programs.
const ERROR_CODES: u16 = 23;

/// The form of an error body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorForm {
    /// `{"itemNotFound":{"code","message"}}`: compute, volume and `/ops/v1`.
    Compute,
    /// `{"error":{"code","message","title"}}`.
    Identity,
    /// `{"NeutronError":{"type","message","detail"}}`.
    Network,
    /// `{"errors":[{"status","title","detail","code","request_id"}]}`; `code` from 1.23 on.
    Placement,
    /// `{"code","title","message"}`, with the message where image clients look for it.
    Image,
}

/// A message to a caller. A text is the caller's to read as it stands; of a reason the caller gets the part for users.
pub trait Message {
    /// Returns the message with the parts for operators alone.
    fn into_reason(self) -> Reason;
}

impl Message for Reason {
    fn into_reason(self) -> Reason {
        self
    }
}

impl Message for String {
    fn into_reason(self) -> Reason {
        Reason::public(self)
    }
}

impl Message for &str {
    fn into_reason(self) -> Reason {
        Reason::public(self)
    }
}

/// An error to send to the caller.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    pub form: ErrorForm,
    /// The seconds for `Retry-After`.
    pub retry_after: Option<u32>,
    /// A 401 with `WWW-Authenticate`.
    pub challenge: bool,
    /// The request's id, for the headers and for bodies that contain it.
    pub request_id: Option<String>,
    /// The error code for programs, in the forms and microversions that have it (such as placement's `placement.concurrent_update`).
    pub code: Option<&'static str>,
    /// The whole message, if the caller gets a shortened one.
    inside: Option<Box<str>>,
    /// The request's microversion, on which some bodies depend; none before it is agreed on.
    version: Option<ApiVersion>,
    /// The versions that there are, if the client asked for another.
    versions: Option<&'static VersionedApi>,
    /// The API, whose answers may have the request's id in a header of its own; none before the request is known.
    api: Option<&'static Api>,
}

impl ApiError {
    /// Logs the part of the message that the caller does not get.
    pub fn log_inside(&self, path: &str, request_id: &str) {
        if let Some(whole) = &self.inside {
            log::warn!(request_id = request_id; "{path} is answered with {}: {whole}", self.status.as_u16());
        }
    }

    /// Sets the id of the request.
    pub fn for_request(mut self, id: &str) -> ApiError {
        self.request_id = Some(id.to_owned());
        self
    }

    /// Sets the request's microversion.
    pub fn for_version(mut self, version: Option<ApiVersion>) -> ApiError {
        self.version = version;
        self
    }

    /// Sets the API of the request, because some headers depend on it.
    pub fn for_api(mut self, api: &'static Api) -> ApiError {
        self.api = Some(api);
        self
    }

    /// Names the versions that there are, in bodies that have them.
    pub fn with_versions(mut self, versions: &'static VersionedApi) -> ApiError {
        self.versions = Some(versions);
        self
    }

    /// Returns the whole message, if the caller gets a shortened one.
    pub fn inside(&self) -> Option<&str> {
        self.inside.as_deref()
    }

    /// Makes an error. The part of the message about the service's inside goes into the log, not to the caller.
    pub fn new(form: ErrorForm, status: StatusCode, message: impl Message) -> ApiError {
        let reason = message.into_reason();
        let inside = reason.has_inside().then(|| reason.to_string().into());
        ApiError {
            status,
            message: reason.for_users(),
            inside,
            form,
            retry_after: None,
            challenge: false,
            request_id: None,
            code: None,
            version: None,
            versions: None,
            api: None,
        }
    }

    /// Makes the error of a path that names no resource, or of a method that it does not take. Neutron's body has the name of its web
    /// framework's class.
    pub fn unrouted(form: ErrorForm, status: StatusCode, message: impl Message) -> ApiError {
        let mut error = ApiError::new(form, status, message);
        error.code = match (form, status) {
            (ErrorForm::Network, StatusCode::NOT_FOUND) => Some("HTTPNotFound"),
            (ErrorForm::Network, StatusCode::METHOD_NOT_ALLOWED) => Some("HTTPMethodNotAllowed"),
            _ => None,
        };
        error
    }

    /// Converts a service's error for its API.
    pub fn from_service(form: ErrorForm, error: ServiceError) -> ApiError {
        let status = match &error {
            ServiceError::NotFound(_) => StatusCode::NOT_FOUND,
            ServiceError::Conflict(_) | ServiceError::Stale(_) => StatusCode::CONFLICT,
            ServiceError::Invalid(_) => StatusCode::BAD_REQUEST,
            ServiceError::Forbidden(_) => StatusCode::FORBIDDEN,
            ServiceError::OverLimit(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ServiceError::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            ServiceError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        match status {
            StatusCode::SERVICE_UNAVAILABLE => ApiError::unavailable(form, reason!("{error}")),
            _ => ApiError::new(form, status, reason!("{error}")),
        }
    }

    /// Makes a 503 that invites another try.
    pub fn unavailable(form: ErrorForm, message: impl Message) -> ApiError {
        let mut error = ApiError::new(form, StatusCode::SERVICE_UNAVAILABLE, message);
        error.retry_after = Some(5);
        error
    }

    /// Makes a 500, and logs the error.
    pub fn fault(form: ErrorForm, error: &dyn std::fmt::Display) -> ApiError {
        log::error!("{error}");
        ApiError::new(form, StatusCode::INTERNAL_SERVER_ERROR, "Unexpected API Error. The log has the reason.")
    }
}

impl<E: Failure> From<E> for ApiError {
    /// Converts the error of a database, in the form of compute.
    fn from(error: E) -> ApiError {
        let form = ErrorForm::Compute;
        match error.failure_kind() {
            FailureKind::Missing(name) => ApiError::new(form, StatusCode::NOT_FOUND, format!("{name} could not be found.")),
            FailureKind::Conflict | FailureKind::Stale => ApiError::new(form, StatusCode::CONFLICT, reason!("{error}")),
            FailureKind::Unavailable => ApiError::unavailable(form, reason!("{error}")),
            FailureKind::Defect => ApiError::fault(form, &error),
        }
    }
}

/// Returns the key of a compute error body, which contains code and message.
fn compute_error_name(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        405 => "badMethod",
        409 => "conflictingRequest",
        413 | 429 => "overLimit",
        415 => "badMediaType",
        501 => "notImplemented",
        503 => "serviceUnavailable",
        _ => "computeFault",
    }
}

impl ApiError {
    /// Returns placement's body. A refusal of the version names the versions that there are.
    fn of_placement(&self, title: &str) -> Value {
        let request_id = self.request_id.as_deref().unwrap_or_default();
        let mut error = json!({"status": self.status.as_u16(), "title": title, "detail": self.message, "request_id": request_id});
        if self.version.is_some_and(|version| version.at_least(ERROR_CODES)) {
            error["code"] = json!(self.code.unwrap_or("placement.undefined_code"));
        }
        if let Some(versions) = self.versions {
            error["max_version"] = json!(versions.max.to_string());
            error["min_version"] = json!(versions.min.to_string());
        }
        json!({"errors": [error]})
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let code = self.status.as_u16();
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = match self.form {
            ErrorForm::Compute => json!({ compute_error_name(self.status): { "code": code, "message": self.message } }),
            ErrorForm::Identity => json!({"error": {"code": code, "message": self.message, "title": title}}),
            ErrorForm::Network => json!({"NeutronError": {"type": self.code.unwrap_or(title), "message": self.message, "detail": ""}}),
            ErrorForm::Placement => self.of_placement(title),
            ErrorForm::Image => json!({"code": code, "title": title, "message": self.message}),
        };
        let mut response = HttpResponse::build(self.status);
        if let Some(seconds) = self.retry_after {
            response.insert_header(("Retry-After", seconds.to_string()));
        }
        if self.challenge {
            response.insert_header(("WWW-Authenticate", "Keystone uri=\"/identity\""));
        }
        let mut response = response.json(body);
        if let Some(id) = self.request_id.as_deref().filter(|id| !id.is_empty()) {
            request_id::put(response.headers_mut(), self.api.and_then(|api| api.id_header), id);
        }
        response
    }
}
