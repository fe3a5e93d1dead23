//! The identity API (Keystone v3), under `/identity`: one file per resource.

mod assignments;
mod domains;
mod endpoints;
mod projects;
mod roles;
#[cfg(test)]
mod tests;
mod tokens;
mod users;
mod versions;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::auth::Caller;
use super::base_url;
use super::error::{ApiError, ErrorForm};
use crate::services::ServiceError;

/// Registers the identity API. It takes an [`crate::services::identity::EmbeddedIdentity`] as `web::Data`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/identity").configure(versions::configure).service(
            web::scope("/v3")
                .configure(versions::configure_v3)
                .configure(tokens::configure)
                .configure(assignments::configure)
                .configure(projects::configure)
                .configure(users::configure)
                .configure(roles::configure)
                .configure(domains::configure)
                .configure(endpoints::configure),
        ),
    );
}

fn failed(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Identity, error)
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorForm::Identity, StatusCode::BAD_REQUEST, message)
}

fn not_found(what: &str, id: &str) -> ApiError {
    ApiError::new(ErrorForm::Identity, StatusCode::NOT_FOUND, format!("Could not find {what}: {id}."))
}

fn require_admin(caller: &Caller) -> Result<(), ApiError> {
    if caller.0.is_admin() {
        return Ok(());
    }
    let message = "You are not authorized to perform the requested action: it needs the role admin.";
    Err(ApiError::new(ErrorForm::Identity, StatusCode::FORBIDDEN, message))
}

/// The link of an entity of a collection (`projects/…`).
fn link(request: &HttpRequest, path: &str) -> Value {
    json!({"self": format!("{}/identity/v3/{path}", base_url::of(request))})
}

/// A whole collection in its envelope: never paged.
fn collection(request: &HttpRequest, name: &str, entities: Vec<Value>) -> Value {
    let own = format!("{}{}", base_url::of(request), request.uri());
    json!({name: entities, "links": {"self": own, "previous": null, "next": null}})
}

/// A query's flag: there, and neither `0` nor `false`.
fn is_set(query: &std::collections::BTreeMap<String, String>, name: &str) -> bool {
    query.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}
