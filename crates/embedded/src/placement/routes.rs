//! The Placement API, microversions 1.0 to 1.39: the list of its routes and schemas, and what the handlers of all resources share. Only
//! administrators and services may use it.

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use cellshift_domain::reason::{Reason, ReasonCode};
use cellshift_web::error::{ApiError, ErrorForm, Message};
use cellshift_web::json::{Document, Unread};
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::Schema;
use uuid::Uuid;

use super::tree::Tree;
use super::{
    EmbeddedPlacement, Provider, aggregates, allocation_candidates, allocations, answers, body, inventories, reshaper, resource_classes,
    resource_providers, traits, usages, versions,
};
use crate::{ServiceError, resource};

/// The schemas of this resource, by request.
pub static SCHEMAS: &[(&str, &Schema)] = &[
    ("placement POST /resource_providers", &resource_providers::routes::CREATE),
    ("placement PUT /resource_providers/{}", &resource_providers::routes::UPDATE),
    ("placement POST /resource_providers/{}/inventories", &inventories::routes::CREATE),
    ("placement PUT /resource_providers/{}/inventories/{}", &inventories::routes::UPDATE),
    ("placement PUT /resource_providers/{}/inventories", &inventories::routes::REPLACE),
    ("placement PUT /resource_providers/{}/traits", &traits::routes::REPLACE),
    ("placement PUT /resource_providers/{}/aggregates", &aggregates::routes::REPLACE),
    ("placement POST /resource_classes", &resource_classes::routes::NAME),
    ("placement PUT /resource_classes/{} (the name in the path)", &resource_classes::routes::CUSTOM),
    ("placement PUT /allocations/{}", &allocations::routes::REPLACE),
    ("placement POST /allocations", &allocations::routes::REPLACE_SEVERAL),
    ("placement POST /reshaper", &reshaper::routes::RESHAPE),
];

/// A request to the placement API, and its sender.
pub(super) type Call = resource::Call<EmbeddedPlacement>;

impl Call {
    /// Refuses callers who are neither administrators nor services, and resources of a later microversion.
    pub(super) fn admit(&self, since: u16) -> Result<(), ApiError> {
        if !self.caller.0.is_admin() && !self.caller.0.has_role("service") {
            return Err(error(StatusCode::FORBIDDEN, "Access to placement is for administrators and services: disallowed by policy"));
        }
        if !self.version.at_least(since) {
            return Err(error(StatusCode::NOT_FOUND, format!("This resource exists from placement 1.{since} on.")));
        }
        Ok(())
    }

    /// Returns the provider with this id, and its parent.
    pub(super) async fn provider(&self, id: &str) -> Result<(Provider, Option<Uuid>), ApiError> {
        self.service.provider(provider_id(id)?).await.map_err(refusal)
    }

    /// Returns the provider with this id, its parent, and the body of a request that changes something of it. Refuses another media type, then
    /// a provider that does not exist, then a body that does not fit.
    pub(super) async fn change_of_provider(
        &self,
        id: &str,
        body: Unread,
        schema: &'static Schema,
    ) -> Result<(Provider, Option<Uuid>, Document), ApiError> {
        body::is_json(&body)?;
        let (provider, parent) = self.provider(id).await?;
        Ok((provider, parent, body::read(body, schema, self.version).await?))
    }

    /// Returns all providers with their places in the trees.
    pub(super) async fn tree(&self) -> Result<Tree, ApiError> {
        self.service.provider_tree().await.map(Tree::of).map_err(refusal)
    }
}

/// Registers all routes under `/placement`. Handlers need `web::Data<EmbeddedPlacement>`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    let resources = |cfg: &mut web::ServiceConfig| {
        versions::configure(cfg);
        resource_providers::routes::configure(cfg);
        inventories::routes::configure(cfg);
        usages::routes::configure(cfg);
        traits::routes::configure(cfg);
        aggregates::routes::configure(cfg);
        allocations::routes::configure(cfg);
        allocation_candidates::routes::configure(cfg);
        resource_classes::routes::configure(cfg);
        reshaper::routes::configure(cfg);
    };
    cfg.service(web::scope("/placement").wrap(from_fn(answers::complete)).configure(resources));
}

/// Returns the code by which programs know a refusal, in placement's words.
fn word(code: ReasonCode) -> Option<&'static str> {
    match code {
        ReasonCode::ConcurrentUpdate => Some("placement.concurrent_update"),
        ReasonCode::InventoryInUse => Some("placement.inventory.inuse"),
        ReasonCode::ProviderInUse => Some("placement.resource_provider.inuse"),
        ReasonCode::ProviderWithChildren => Some("placement.resource_provider.cannot_delete_parent"),
        ReasonCode::DuplicateName => Some("placement.duplicate_name"),
        _ => None,
    }
}

pub(super) fn refusal(error: ServiceError) -> ApiError {
    let code = match &error {
        ServiceError::Conflict(why) => why.code().and_then(word),
        _ => None,
    };
    let mut answer = ApiError::from_service(ErrorForm::Placement, error);
    answer.code = code;
    answer
}

pub(super) fn error(status: StatusCode, message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Placement, status, message)
}

pub(super) fn invalid(message: impl Message) -> ApiError {
    error(StatusCode::BAD_REQUEST, message)
}

pub(super) fn unavailable(reason: String) -> ApiError {
    refusal(ServiceError::Unavailable { service: "placement", reason: Reason::public(reason) })
}

/// Refuses a method that a resource has only from a later microversion on.
pub(super) fn has_method(version: ApiVersion, since: u16) -> Result<(), ApiError> {
    match version.at_least(since) {
        true => Ok(()),
        false => Err(error(StatusCode::METHOD_NOT_ALLOWED, format!("The resource has this method from placement 1.{since} on."))),
    }
}

pub(super) fn provider_id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| error(StatusCode::NOT_FOUND, format!("No resource provider with uuid {text} found")))
}
