//! The API's view of roles, and who may read and change them.

use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::rights::{MANAGED_ROLES, Reach, manages, reads_system, require, require_admin};
use crate::identity::routes::{Call, bad_request, failed, link, without_options};
use crate::identity::{EmbeddedIdentity, ROLES, Role, RoleChanges};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /roles" => Body,
    "identity PATCH /roles/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    role: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    #[serde(default, rename = "options", deserialize_with = "without_options")]
    #[schemars(with = "Option<Map<String, Value>>")]
    _options: (),
}

impl Shown for Role {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "role";
    const COLLECTION: &'static str = "roles";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Role>, ApiError> {
        let manages_domain = manages(&call.caller) != Reach::Nowhere;
        require("identity:list_roles", manages_domain || reads_system(&call.caller))?;
        let mut roles = call.service.roles().await.map_err(failed)?;
        // All roles here are global, so none matches a filter by domain.
        roles.retain(|role| is(query, "name", &role.name) && !query.contains_key("domain_id"));
        Ok(roles)
    }

    async fn show(call: &Call, id: &str) -> Result<Role, ApiError> {
        let allowed = reads_system(&call.caller);
        require("identity:get_role", allowed || call.caller.0.has_role("manager"))?;
        let role = call.service.role(id).await.map_err(failed)?;
        // A manager may read the roles that a manager may give.
        require("identity:get_role", allowed || MANAGED_ROLES.contains(&role.name.as_str()))?;
        Ok(role)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        require_admin("identity:delete_role", &call.caller)?;
        call.service.delete_role(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        let options = if ROLES.contains(&self.name.as_str()) { json!({"immutable": true}) } else { json!({}) };
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "domain_id": null,
            "options": options,
            "links": link(&call.request, &format!("roles/{}", self.id)),
        })
    }
}

impl Editable for Role {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { role }: Body) -> Result<Role, ApiError> {
        require_admin("identity:create_role", &call.caller)?;
        let name = role.name.ok_or_else(|| bad_request("A role needs a name."))?;
        call.service.create_role(&name, &role.description.unwrap_or_default()).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { role }: Body) -> Result<Role, ApiError> {
        require_admin("identity:update_role", &call.caller)?;
        call.service.update_role(id, RoleChanges { name: role.name, description: role.description }).await.map_err(failed)
    }
}
