//! Domains.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::rights::{reads, reads_system, require, require_admin};
use crate::identity::routes::{bad_request, collection, failed, is_wanted_flag, link, not_null, without_options};
use crate::identity::{Domain, DomainChanges, EmbeddedIdentity, NewDomain};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/domains").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/domains/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /domains", of_type::<Body>), ("identity PATCH /domains/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
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

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let reach = reads(&caller);
    reach.require("identity:list_domains")?;
    let mut domains = identity.domains().await.map_err(failed)?;
    domains.retain(|domain| {
        let named = query.get("name").is_none_or(|name| *name == domain.name);
        named && is_wanted_flag(&query, "enabled", domain.enabled) && reach.covers(&domain.id)
    });
    let domains = domains.iter().map(|domain| render(&request, domain)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "domains", domains)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    // Everybody may see the domain of the token's own project.
    let own = !caller.0.project_id.is_empty() && caller.0.project_domain_id == *id;
    require("identity:get_domain", own || caller.0.domain_id == *id || reads_system(&caller))?;
    let domain = identity.domain(&id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"domain": render(&request, &domain)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { domain }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_domain", &caller)?;
    let new = NewDomain {
        name: domain.name.ok_or_else(|| bad_request("A domain needs a name."))?,
        description: domain.description.unwrap_or_default(),
        enabled: domain.enabled.unwrap_or(true),
    };
    let created = identity.create_domain(new).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"domain": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { domain }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_domain", &caller)?;
    let changes = DomainChanges { name: domain.name, description: domain.description, enabled: domain.enabled };
    let updated = identity.update_domain(&id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"domain": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_domain", &caller)?;
    identity.delete_domain(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

pub(in crate::identity) fn render(request: &HttpRequest, domain: &Domain) -> Value {
    json!({
        "id": domain.id,
        "name": domain.name,
        "description": domain.description,
        "enabled": domain.enabled,
        "tags": [],
        "options": {},
        "links": link(request, &format!("domains/{}", domain.id)),
    })
}
