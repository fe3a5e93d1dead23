//! The catalog, and its services and endpoints as administrators list them.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{collection, link, not_found, reads_system, require};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::services::identity::catalog::{CATALOG, CatalogEntry, INTERFACES, REGION};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/services").route(web::get().to(list_services)));
    cfg.service(web::resource("/services/{id}").route(web::get().to(show_service)));
    cfg.service(web::resource("/endpoints").route(web::get().to(list_endpoints)));
    cfg.service(web::resource("/endpoints/{id}").route(web::get().to(show_endpoint)));
    cfg.service(web::resource("/regions").route(web::get().to(list_regions)));
    cfg.service(web::resource("/regions/{id}").route(web::get().to(show_region)));
}

/// Returns the catalog in a token's form.
pub(super) fn catalog(request: &HttpRequest) -> Vec<Value> {
    let base = base_url::of(request);
    let endpoint = |entry: &CatalogEntry, interface: &str| json!({"id": entry.endpoint_id(interface), "interface": interface, "region": REGION, "region_id": REGION, "url": entry.url(&base)});
    let service = |entry: &CatalogEntry| {
        let endpoints: Vec<_> = INTERFACES.iter().map(|interface| endpoint(entry, interface)).collect();
        json!({"id": entry.service_id(), "type": entry.service_type, "name": entry.name, "endpoints": endpoints})
    };
    CATALOG.iter().map(service).collect()
}

async fn list_services(
    request: HttpRequest,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_services", reads_system(&caller))?;
    let wanted = |entry: &&CatalogEntry| {
        query.get("name").is_none_or(|name| name == entry.name) && query.get("type").is_none_or(|wanted| wanted == entry.service_type)
    };
    let services = CATALOG.iter().filter(wanted).map(|entry| service(&request, entry)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "services", services)))
}

async fn show_service(request: HttpRequest, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require("identity:get_service", reads_system(&caller))?;
    let entry = CATALOG.iter().find(|entry| entry.service_id() == *id).ok_or_else(|| not_found("service", &id))?;
    Ok(HttpResponse::Ok().json(json!({"service": service(&request, entry)})))
}

async fn list_endpoints(
    request: HttpRequest,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_endpoints", reads_system(&caller))?;
    let is = |endpoint: &Value, key: &str| query.get(key).is_none_or(|wanted| endpoint[key] == wanted.as_str());
    let mut known = endpoints(&request);
    known.retain(|endpoint| is(endpoint, "service_id") && is(endpoint, "interface") && is(endpoint, "region_id"));
    Ok(HttpResponse::Ok().json(collection(&request, "endpoints", known)))
}

async fn show_endpoint(request: HttpRequest, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require("identity:get_endpoint", reads_system(&caller))?;
    let endpoint = endpoints(&request).into_iter().find(|endpoint| endpoint["id"] == id.as_str());
    Ok(HttpResponse::Ok().json(json!({"endpoint": endpoint.ok_or_else(|| not_found("endpoint", &id))?})))
}

async fn list_regions(request: HttpRequest, _: Caller) -> HttpResponse {
    HttpResponse::Ok().json(collection(&request, "regions", vec![region(&request)]))
}

async fn show_region(request: HttpRequest, _: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    if *id != REGION {
        return Err(not_found("region", &id));
    }
    Ok(HttpResponse::Ok().json(json!({"region": region(&request)})))
}

fn service(request: &HttpRequest, entry: &CatalogEntry) -> Value {
    let id = entry.service_id();
    let links = link(request, &format!("services/{id}"));
    json!({"id": id, "type": entry.service_type, "name": entry.name, "description": "", "enabled": true, "links": links})
}

fn endpoints(request: &HttpRequest) -> Vec<Value> {
    let base = base_url::of(request);
    let mut all = Vec::new();
    for entry in &CATALOG {
        for interface in INTERFACES {
            let id = entry.endpoint_id(interface);
            let links = link(request, &format!("endpoints/{id}"));
            let (service_id, url) = (entry.service_id(), entry.url(&base));
            all.push(json!({
                "id": id, "service_id": service_id, "interface": interface, "url": url, "enabled": true,
                "region": REGION, "region_id": REGION, "links": links,
            }));
        }
    }
    all
}

fn region(request: &HttpRequest) -> Value {
    json!({"id": REGION, "description": "", "parent_region_id": null, "links": link(request, &format!("regions/{REGION}"))})
}
