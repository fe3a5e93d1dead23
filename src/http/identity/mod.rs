//! The identity API (Keystone v3), under `/identity`: one file per resource.

mod application_credentials;
mod assignments;
mod catalog;
mod domains;
mod endpoints;
mod groups;
mod projects;
mod regions;
mod roles;
mod services;
#[cfg(test)]
mod tests;
mod tokens;
mod users;
mod versions;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use serde::{Deserialize, Deserializer};
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
                .configure(application_credentials::configure)
                .configure(groups::configure)
                .configure(users::configure)
                .configure(roles::configure)
                .configure(domains::configure)
                .configure(services::configure)
                .configure(endpoints::configure)
                .configure(regions::configure),
        ),
    );
}

/// Parses a present field, which may be null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Parses an optional field, which may not be null if it is present.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
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

/// Answers 403 unless the action is allowed. The action has the name of Keystone's policy (`identity:get_user`).
fn require(action: &str, allowed: bool) -> Result<(), ApiError> {
    if allowed {
        return Ok(());
    }
    let message = format!("You are not authorized to perform the requested action: {action}.");
    Err(ApiError::new(ErrorForm::Identity, StatusCode::FORBIDDEN, message))
}

fn require_admin(action: &str, caller: &Caller) -> Result<(), ApiError> {
    require(action, caller.0.is_admin())
}

/// True for an administrator, and for a reader whose token is scoped to the system.
fn reads_system(caller: &Caller) -> bool {
    caller.0.is_admin() || (caller.0.has_role("reader") && caller.0.system_scope)
}

/// True for callers that [`reads_system`] admits, and for a reader whose token is scoped to the domain, which has all accounts.
fn reads_domain(caller: &Caller) -> bool {
    reads_system(caller) || (caller.0.has_role("reader") && caller.0.domain_scope)
}

/// Returns the link of an entity in a collection (`projects/…`).
fn link(request: &HttpRequest, path: &str) -> Value {
    json!({"self": format!("{}/identity/v3/{path}", base_url::of(request))})
}

/// Wraps a whole collection; collections have no pages.
fn collection(request: &HttpRequest, name: &str, entities: Vec<Value>) -> Value {
    let own = format!("{}{}", base_url::of(request), request.uri());
    json!({name: entities, "links": {"self": own, "previous": null, "next": null}})
}

/// True if the query has the flag, with a value other than `0` and `false`.
fn is_set(query: &std::collections::BTreeMap<String, String>, name: &str) -> bool {
    query.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}
