//! Roles.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::ROLES;
use crate::identity::rights::{MANAGED_ROLES, Reach, manages, reads_system, require, require_admin};
use crate::identity::routes::{bad_request, collection, failed, link, not_null, without_options};
use crate::identity::{EmbeddedIdentity, Role, RoleChanges};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/roles").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/roles/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /roles", of_type::<Body>), ("identity PATCH /roles/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
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

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let manages_domain = manages(&caller) != Reach::Nowhere;
    require("identity:list_roles", manages_domain || reads_system(&caller))?;
    let mut roles = identity.roles().await.map_err(failed)?;
    // All roles here are global, so none matches a filter by domain.
    roles.retain(|role| query.get("name").is_none_or(|name| *name == role.name) && !query.contains_key("domain_id"));
    let roles = roles.iter().map(|role| render(&request, role)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "roles", roles)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let allowed = reads_system(&caller);
    require("identity:get_role", allowed || caller.0.has_role("manager"))?;
    let role = identity.role(&id).await.map_err(failed)?;
    // A manager may read the roles that a manager may give.
    require("identity:get_role", allowed || MANAGED_ROLES.contains(&role.name.as_str()))?;
    Ok(HttpResponse::Ok().json(json!({"role": render(&request, &role)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { role }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_role", &caller)?;
    let name = role.name.ok_or_else(|| bad_request("A role needs a name."))?;
    let created = identity.create_role(&name, &role.description.unwrap_or_default()).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"role": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { role }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_role", &caller)?;
    let updated = identity.update_role(&id, RoleChanges { name: role.name, description: role.description }).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"role": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_role", &caller)?;
    identity.delete_role(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

pub(in crate::identity) fn render(request: &HttpRequest, role: &Role) -> Value {
    let options = if ROLES.contains(&role.name.as_str()) { json!({"immutable": true}) } else { json!({}) };
    json!({
        "id": role.id,
        "name": role.name,
        "description": role.description,
        "domain_id": null,
        "options": options,
        "links": link(request, &format!("roles/{}", role.id)),
    })
}
