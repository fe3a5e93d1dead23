//! The Placement API, microversions 1.0 to 1.39, over the embedded placement service: one file per resource. Only administrators and
//! services may use it.

mod aggregates;
mod allocation_candidates;
mod allocations;
mod answers;
mod body;
mod candidates;
mod consumers;
mod inventories;
mod query;
mod reshaper;
mod resource_classes;
mod resource_providers;
#[cfg(test)]
mod tests;
mod traits;
mod usages;
mod versions;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::Schema;
use uuid::Uuid;

use crate::ServiceError;
use crate::placement::EmbeddedPlacement;
use crate::placement::tree::Tree;

/// The schemas of this resource, by request.
pub static SCHEMAS: &[(&str, &Schema)] = &[
    ("placement POST /resource_providers", &resource_providers::CREATE),
    ("placement PUT /resource_providers/{}", &resource_providers::UPDATE),
    ("placement POST /resource_providers/{}/inventories", &inventories::CREATE),
    ("placement PUT /resource_providers/{}/inventories/{}", &inventories::UPDATE),
    ("placement PUT /resource_providers/{}/inventories", &inventories::REPLACE),
    ("placement PUT /resource_providers/{}/traits", &traits::REPLACE),
    ("placement PUT /resource_providers/{}/aggregates", &aggregates::REPLACE),
    ("placement POST /resource_classes", &resource_classes::NAME),
    ("placement PUT /resource_classes/{} (the name in the path)", &resource_classes::CUSTOM),
    ("placement PUT /allocations/{}", &allocations::REPLACE),
    ("placement POST /allocations", &allocations::REPLACE_SEVERAL),
    ("placement POST /reshaper", &reshaper::RESHAPE),
];

type Service = web::Data<EmbeddedPlacement>;

/// Registers all routes under `/placement`. Handlers need `web::Data<EmbeddedPlacement>`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    let resources = |cfg: &mut web::ServiceConfig| {
        versions::configure(cfg);
        resource_providers::configure(cfg);
        inventories::configure(cfg);
        usages::configure(cfg);
        traits::configure(cfg);
        aggregates::configure(cfg);
        allocations::configure(cfg);
        allocation_candidates::configure(cfg);
        resource_classes::configure(cfg);
        reshaper::configure(cfg);
    };
    cfg.service(web::scope("/placement").wrap(from_fn(answers::complete)).configure(resources));
}

/// The codes by which programs tell refusals apart, each with words of the refusals that have it.
const CODES: &[(&str, &str)] = &[
    ("generation conflict", "placement.concurrent_update"),
    ("in use.", "placement.inventory.inuse"),
    ("Resource provider has allocations", "placement.resource_provider.inuse"),
    ("has child resource providers", "placement.resource_provider.cannot_delete_parent"),
    ("Conflicting resource provider name", "placement.duplicate_name"),
];

fn refusal(error: ServiceError) -> ApiError {
    let code = match &error {
        ServiceError::Conflict(why) => CODES.iter().find(|(words, _)| why.contains(words)).map(|(_, code)| *code),
        _ => None,
    };
    let mut refused = ApiError::from_service(ErrorForm::Placement, error);
    refused.code = code;
    refused
}

fn error(status: StatusCode, message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorForm::Placement, status, message)
}

fn invalid(message: impl Into<String>) -> ApiError {
    error(StatusCode::BAD_REQUEST, message)
}

fn unavailable(reason: String) -> ApiError {
    refusal(ServiceError::Unavailable { service: "placement", reason })
}

/// Refuses callers who are neither administrators nor services, and resources of a later microversion.
fn admit(caller: &Caller, version: ApiVersion, since: u16) -> Result<(), ApiError> {
    if !caller.0.is_admin() && !caller.0.has_role("service") {
        return Err(error(StatusCode::FORBIDDEN, "Access to placement is for administrators and services: disallowed by policy"));
    }
    if !version.at_least(since) {
        return Err(error(StatusCode::NOT_FOUND, format!("This resource exists from placement 1.{since} on.")));
    }
    Ok(())
}

/// Refuses a method that a resource has only from a later microversion on.
fn has_method(version: ApiVersion, since: u16) -> Result<(), ApiError> {
    match version.at_least(since) {
        true => Ok(()),
        false => Err(error(StatusCode::METHOD_NOT_ALLOWED, format!("The resource has this method from placement 1.{since} on."))),
    }
}

fn provider_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| error(StatusCode::NOT_FOUND, format!("No resource provider with uuid {text} found")))
}

/// Returns all providers with their places in the trees.
async fn tree(service: &EmbeddedPlacement) -> Result<Tree, ApiError> {
    service.provider_tree().await.map(Tree::of).map_err(refusal)
}
