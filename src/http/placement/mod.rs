//! The Placement API, microversions 1.0 to 1.39, over the embedded placement service: one file per resource. Only administrators and
//! services may use it.

mod aggregates;
mod allocation_candidates;
mod allocations;
mod candidates;
mod inventories;
mod resource_classes;
mod resource_providers;
#[cfg(test)]
mod tests;
mod traits;
mod usages;
mod versions;

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use uuid::Uuid;

use super::auth::Caller;
use super::error::{ApiError, ErrorForm};
use super::microversion::ApiVersion;
use crate::services::ServiceError;
use crate::services::placement::EmbeddedPlacement;
use crate::services::placement::tree::Tree;

type Service = web::Data<EmbeddedPlacement>;

/// Registers all routes under `/placement`. Handlers need `web::Data<EmbeddedPlacement>`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    versions::configure(cfg);
    resource_providers::configure(cfg);
    inventories::configure(cfg);
    usages::configure(cfg);
    traits::configure(cfg);
    aggregates::configure(cfg);
    allocations::configure(cfg);
    allocation_candidates::configure(cfg);
    resource_classes::configure(cfg);
}

fn refusal(error: ServiceError) -> ApiError {
    // By this code clients tell a lost race, which they retry, from a refusal.
    let code = match &error {
        ServiceError::Conflict(why) if why.contains("generation conflict") => Some("placement.concurrent_update"),
        ServiceError::Conflict(why) if why.ends_with("in use.") => Some("placement.inventory.inuse"),
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

fn id_of(what: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| error(StatusCode::NOT_FOUND, format!("No {what} with uuid {text} found")))
}

/// Returns all providers with their places in the trees.
async fn tree(service: &EmbeddedPlacement) -> Result<Tree, ApiError> {
    service.provider_tree().await.map(Tree::of).map_err(refusal)
}

/// Parses `VCPU:1,MEMORY_MB:512`.
fn amounts(text: &str) -> Result<BTreeMap<String, i64>, ApiError> {
    let pair = |part: &str| {
        let (class, amount) = part.split_once(':')?;
        Some((class.to_owned(), amount.parse::<i64>().ok().filter(|amount| *amount > 0)?))
    };
    text.split(',').map(|part| pair(part).ok_or_else(|| invalid(format!("Badly formed resources parameter: {part}")))).collect()
}

/// Parses `A,B`. Refuses forbidden traits (`!A`) and choices (`in:A,B`) instead of ignoring them.
fn required_traits(text: &str) -> Result<Vec<String>, ApiError> {
    if text.starts_with("in:") || text.split(',').any(|name| name.starts_with('!')) {
        return Err(invalid(format!("Only traits that must all be there can be required here, not {text}")));
    }
    Ok(text.split(',').map(str::to_owned).collect())
}
