//! The API's view of endpoints, and who may read and change them.

use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fields;
use crate::identity::Endpoint;
use crate::identity::catalog::routes::{editable, shown, whole};
use crate::identity::rights::{reads_system, require, require_admin};
use crate::identity::routes::{Call, failed, link, not_found};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /endpoints" => Body,
    "identity PATCH /endpoints/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    endpoint: Fields,
}

impl Shown for Endpoint {
    async fn list(call: &Call, query: &Query) -> Result<Vec<Endpoint>, ApiError> {
        require("identity:list_endpoints", reads_system(&call.caller))?;
        let mut endpoints = whole(call).await?.endpoints;
        endpoints.retain(|endpoint| {
            let region = endpoint.region_id.as_deref().unwrap_or_default();
            is(query, "service_id", &endpoint.service_id) && is(query, "interface", &endpoint.interface) && is(query, "region_id", region)
        });
        Ok(endpoints)
    }

    shown!(Endpoint, "endpoint" in endpoints, reads: reads_system, delete: delete_endpoint);

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "service_id": self.service_id,
            "interface": self.interface,
            "url": self.url,
            "enabled": self.enabled,
            "region": self.region_id,
            "region_id": self.region_id,
            "links": link(&call.request, &format!("endpoints/{}", self.id)),
        })
    }
}

editable!(Endpoint, "endpoint", field: endpoint, create: create_endpoint, update: update_endpoint);
