//! Request bodies: JSON that fits its schema at the request's microversion. Handlers read them after they have admitted the caller.

use actix_web::http::StatusCode;
use cellshift_web::error::ApiError;
use cellshift_web::json::{Document, JSON, Unread};
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::Schema;
use serde::Deserialize;

use super::routes::{error, invalid, unavailable};

/// Refuses a body of another media type: 415.
pub(super) fn is_json(body: &Unread) -> Result<(), ApiError> {
    match body.media_type() {
        Some(JSON) => Ok(()),
        None if !body.is_empty() => Err(invalid("content-type header required")),
        other => {
            let message = format!("The media type {} is not supported, use {JSON}", other.unwrap_or("None"));
            Err(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

/// Returns a body that fits. 415 for another media type, 400 for what is no JSON or does not fit.
pub(super) async fn read(body: Unread, schema: &'static Schema, version: ApiVersion) -> Result<Document, ApiError> {
    is_json(&body)?;
    let document = body.document().await?;
    match schema.broken_rule(version, &document).await {
        Ok(None) => Ok(document),
        Ok(Some(rule)) => Err(invalid(rule)),
        Err(reason) => Err(unavailable(reason)),
    }
}

/// Returns a body that fits as a `T`, as which each body that fits its schema can be read.
pub(super) fn parsed<'a, T: Deserialize<'a>>(document: &'a Document) -> Result<T, ApiError> {
    T::deserialize(&**document).map_err(|reason| invalid(format!("JSON does not validate: {reason}")))
}
