//! The API's view of services, and who may read and change them.

use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fields;
use crate::identity::CatalogService;
use crate::identity::catalog::routes::{editable, shown, whole};
use crate::identity::rights::{reads_system, require, require_admin};
use crate::identity::routes::{Call, failed, link, not_found};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /services" => Body,
    "identity PATCH /services/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    service: Fields,
}

impl Shown for CatalogService {
    async fn list(call: &Call, query: &Query) -> Result<Vec<CatalogService>, ApiError> {
        require("identity:list_services", reads_system(&call.caller))?;
        let mut services = whole(call).await?.services;
        services.retain(|service| is(query, "name", &service.name) && is(query, "type", &service.service_type));
        Ok(services)
    }

    shown!(CatalogService, "service" in services, reads: reads_system, delete: delete_service);

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

editable!(CatalogService, "service", field: service, create: create_service, update: update_service);
