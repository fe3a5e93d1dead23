//! The API's view of domains, and who may read and change them.

use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::rights::{readable, reads_system, require, require_admin};
use crate::identity::routes::{Call, bad_request, failed, is_flag, link, without_options};
use crate::identity::{Domain, DomainChanges, EmbeddedIdentity, NewDomain};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /domains" => Body,
    "identity PATCH /domains/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    domain: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
    #[serde(default, rename = "options", deserialize_with = "without_options")]
    #[schemars(with = "Option<Map<String, Value>>")]
    _options: (),
}

impl Shown for Domain {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "domain";
    const COLLECTION: &'static str = "domains";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Domain>, ApiError> {
        let admits = |domain: &Domain| is(query, "name", &domain.name) && is_flag(query, "enabled", domain.enabled);
        readable(call, "identity:list_domains", call.service.domains(), admits).await
    }

    async fn show(call: &Call, id: &str) -> Result<Domain, ApiError> {
        let caller = &call.caller.0;
        // Everybody may see the domain of the token's own project.
        let own = !caller.project_id.is_empty() && caller.project_domain_id == id;
        require("identity:get_domain", own || caller.domain_id == id || reads_system(&call.caller))?;
        call.service.domain(id).await.map_err(failed)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require_admin("identity:delete_domain", &call.caller)?;
        call.service.delete_domain(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "enabled": self.enabled,
            "tags": [],
            "options": {},
            "links": link(&call.request, &format!("domains/{}", self.id)),
        })
    }
}

impl Editable for Domain {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { domain }: Body) -> Result<Domain, ApiError> {
        require_admin("identity:create_domain", &call.caller)?;
        let new = NewDomain {
            name: domain.name.ok_or_else(|| bad_request("A domain needs a name."))?,
            description: domain.description.unwrap_or_default(),
            enabled: domain.enabled.unwrap_or(true),
        };
        call.service.create_domain(new).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { domain }: Body) -> Result<Domain, ApiError> {
        require_admin("identity:update_domain", &call.caller)?;
        let changes = DomainChanges { name: domain.name, description: domain.description, enabled: domain.enabled };
        call.service.update_domain(id, changes).await.map_err(failed)
    }
}
