//! The catalog's services: those that are built in, and those that administrators add.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::rights::{reads_system, require, require_admin};
use crate::identity::routes::{collection, failed, link, not_found, not_null};
use crate::identity::{CatalogService, EmbeddedIdentity, ServiceFields};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/services").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/services/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /services", of_type::<Body>), ("identity PATCH /services/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
    service: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(rename = "type", default, deserialize_with = "not_null")]
    service_type: Option<String>,
    name: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
}

impl From<Fields> for ServiceFields {
    fn from(fields: Fields) -> ServiceFields {
        let Fields { service_type, name, description, enabled } = fields;
        ServiceFields { service_type, name, description, enabled }
    }
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_services", reads_system(&caller))?;
    let mut services = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.services;
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    services.retain(|service| is("name", &service.name) && is("type", &service.service_type));
    let services = services.iter().map(|service| render(&request, service)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "services", services)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    require("identity:get_service", reads_system(&caller))?;
    let services = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.services;
    let service = services.iter().find(|service| service.id == *id).ok_or_else(|| not_found("service", &id))?;
    Ok(HttpResponse::Ok().json(json!({"service": render(&request, service)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { service }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_service", &caller)?;
    let created = identity.create_service(service.into()).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"service": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { service }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_service", &caller)?;
    let updated = identity.update_service(&id, service.into()).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"service": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_service", &caller)?;
    identity.delete_service(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(request: &HttpRequest, service: &CatalogService) -> Value {
    json!({
        "id": service.id,
        "type": service.service_type,
        "name": service.name,
        "description": service.description,
        "enabled": service.enabled,
        "links": link(request, &format!("services/{}", service.id)),
    })
}
