//! The catalog's endpoints: those that are built in, and those that administrators add.

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
use crate::identity::routes::{collection, failed, given, link, not_found, not_null};
use crate::identity::{EmbeddedIdentity, Endpoint, EndpointFields};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/endpoints").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/endpoints/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /endpoints", of_type::<Body>), ("identity PATCH /endpoints/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
    endpoint: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    service_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    region_id: Option<Option<String>>,
    /// The older name of `region_id`.
    region: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    interface: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    url: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
}

impl From<Fields> for EndpointFields {
    fn from(fields: Fields) -> EndpointFields {
        let Fields { service_id, region_id, region, interface, url, enabled } = fields;
        EndpointFields { service_id, region_id, legacy_region: region, interface, url, enabled }
    }
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_endpoints", reads_system(&caller))?;
    let mut endpoints = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.endpoints;
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    endpoints.retain(|endpoint| {
        let region = endpoint.region_id.as_deref().unwrap_or_default();
        is("service_id", &endpoint.service_id) && is("interface", &endpoint.interface) && is("region_id", region)
    });
    let endpoints = endpoints.iter().map(|endpoint| render(&request, endpoint)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "endpoints", endpoints)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    require("identity:get_endpoint", reads_system(&caller))?;
    let endpoints = identity.catalog(&base_url::of(&request)).await.map_err(failed)?.endpoints;
    let endpoint = endpoints.iter().find(|endpoint| endpoint.id == *id).ok_or_else(|| not_found("endpoint", &id))?;
    Ok(HttpResponse::Ok().json(json!({"endpoint": render(&request, endpoint)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { endpoint }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_endpoint", &caller)?;
    let created = identity.create_endpoint(endpoint.into()).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"endpoint": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { endpoint }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_endpoint", &caller)?;
    let updated = identity.update_endpoint(&id, endpoint.into()).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"endpoint": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_endpoint", &caller)?;
    identity.delete_endpoint(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(request: &HttpRequest, endpoint: &Endpoint) -> Value {
    json!({
        "id": endpoint.id,
        "service_id": endpoint.service_id,
        "interface": endpoint.interface,
        "url": endpoint.url,
        "enabled": endpoint.enabled,
        "region": endpoint.region_id,
        "region_id": endpoint.region_id,
        "links": link(request, &format!("endpoints/{}", endpoint.id)),
    })
}
