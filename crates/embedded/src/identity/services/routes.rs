//! The API's view of services, and who may read and change them.

use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fields;
use crate::identity::rights::{reads_system, require, require_admin};
use crate::identity::routes::{Call, failed, link, not_found};
use crate::identity::{CatalogService, EmbeddedIdentity};
use crate::request_bodies::{RequestBody, of_type};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /services", of_type::<Body>), ("identity PATCH /services/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    service: Fields,
}

impl Shown for CatalogService {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "service";
    const COLLECTION: &'static str = "services";

    async fn list(call: &Call, query: &Query) -> Result<Vec<CatalogService>, ApiError> {
        require("identity:list_services", reads_system(&call.caller))?;
        let mut services = call.service.catalog(&base_url::of(&call.request)).await.map_err(failed)?.services;
        services.retain(|service| is(query, "name", &service.name) && is(query, "type", &service.service_type));
        Ok(services)
    }

    async fn show(call: &Call, id: &str) -> Result<CatalogService, ApiError> {
        require("identity:get_service", reads_system(&call.caller))?;
        let services = call.service.catalog(&base_url::of(&call.request)).await.map_err(failed)?.services;
        services.into_iter().find(|service| service.id == id).ok_or_else(|| not_found("service", id))
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require_admin("identity:delete_service", &call.caller)?;
        call.service.delete_service(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "type": self.service_type,
            "name": self.name,
            "description": self.description,
            "enabled": self.enabled,
            "links": link(&call.request, &format!("services/{}", self.id)),
        })
    }
}

impl Editable for CatalogService {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { service }: Body) -> Result<CatalogService, ApiError> {
        require_admin("identity:create_service", &call.caller)?;
        call.service.create_service(service).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { service }: Body) -> Result<CatalogService, ApiError> {
        require_admin("identity:update_service", &call.caller)?;
        call.service.update_service(id, service).await.map_err(failed)
    }
}
