//! Answers that many resources of the compute API share: refusals, links and times.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::servers::links;
use crate::cell_registry::{LookupError, SilentCell};
use crate::db::DbError;
use crate::domain::moment;
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::http::base_url;
use crate::http::error::{ApiError, ErrorForm, Message};

/// The result of a handler.
pub type Answer = Result<HttpResponse, ApiError>;

/// Makes a 400.
pub fn bad_request(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, message)
}

/// Makes a 403.
pub fn forbidden(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, message)
}

/// Makes a 404.
pub fn not_found(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, message)
}

/// Makes a 404 for a resource that the microversion lacks: for its clients the path does not exist.
pub fn no_such_resource() -> ApiError {
    not_found("The resource could not be found.")
}

/// Makes a 409.
pub fn conflict(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::CONFLICT, message)
}

/// Makes a 503 that invites another try.
pub fn unavailable(message: impl Message) -> ApiError {
    ApiError::unavailable(ErrorForm::Compute, message)
}

/// Makes a 503 for a list that would lack these cells' entries.
pub fn incomplete(silent: &[SilentCell]) -> ApiError {
    let reasons = Reason::join(silent.iter().map(|cell| &cell.reason), "; ");
    unavailable(reason!("The list would be incomplete: {reasons}."))
}

/// Makes a 500, and logs the error.
pub fn fault(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::fault(ErrorForm::Compute, error)
}

impl From<LookupError> for ApiError {
    /// Answers 503 for a server whose cell does not answer.
    fn from(error: LookupError) -> ApiError {
        DbError::from(error).into()
    }
}

/// Makes a 200 with a body.
pub fn ok(body: &(impl serde::Serialize + ?Sized)) -> Answer {
    Ok(HttpResponse::Ok().json(body))
}

/// Makes an answer without a body.
pub fn empty(status: StatusCode) -> Answer {
    Ok(HttpResponse::new(status))
}

/// Formats a moment as most compute resources do: without a zone, with six digits.
pub fn moment(at: DateTime<Utc>) -> String {
    moment::micros(at)
}

/// Formats a moment as [`moment`] does; null for None.
pub fn moment_or_null(at: Option<DateTime<Utc>>) -> Value {
    at.map_or(Value::Null, |at| Value::String(moment(at)))
}

/// Returns a resource's `self` and `bookmark` links.
pub fn links(request: &HttpRequest, collection: &str, id: &str) -> Value {
    links::of(&base_url::of(request), collection, id)
}
