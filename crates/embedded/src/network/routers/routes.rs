//! Routers, their interfaces and their extra routes.

use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::records::RouterRecord;
use crate::network::resource::{self, resource};
use crate::network::routes::{Call, attributes, id_of, refusal, unnamed, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure::<RouterRecord>(cfg);
    cfg.service(web::resource("/network/v2.0/routers/{id}/add_router_interface").route(web::put().to(add_interface)))
        .service(web::resource("/network/v2.0/routers/{id}/remove_router_interface").route(web::put().to(remove_interface)))
        .service(web::resource("/network/v2.0/routers/{id}/add_extraroutes").route(web::put().to(add_routes)))
        .service(web::resource("/network/v2.0/routers/{id}/remove_extraroutes").route(web::put().to(remove_routes)));
}

resource! {
    RouterRecord, kind: "Router", path: "routers", name: "router", collection: "routers",
    list: routers, find: router, create: create_router, update: update_router, delete: delete_router, body: body
}

async fn add_interface(call: Call, id: web::Path<String>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let interface = unnamed(body)?;
    let added = call.service.add_interface(writer(&call.caller)?, id_of("Router", &id)?, interface).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(with(&added, json!({}))?))
}

async fn remove_interface(call: Call, id: web::Path<String>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    let interface = unnamed(body)?;
    let interface = call.service.remove_interface(writer(&call.caller)?, id_of("Router", &id)?, interface).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(with(&interface, json!({}))?))
}

async fn add_routes(call: Call, id: web::Path<String>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    change_routes(&call, &id, body, true).await
}

async fn remove_routes(call: Call, id: web::Path<String>, Json(body): Json<Value>) -> Result<HttpResponse, ApiError> {
    change_routes(&call, &id, body, false).await
}

async fn change_routes(call: &Call, id: &str, request: Value, adds: bool) -> Result<HttpResponse, ApiError> {
    let routes = attributes(request, "router")?;
    let router = call.service.change_routes(writer(&call.caller)?, id_of("Router", id)?, routes, adds).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"router": body(&router, &call.caller)?})))
}

/// Returns the API's view of a router. Routers here are neither distributed nor highly available.
fn body(router: &RouterRecord, caller: &Caller) -> Result<Value, ApiError> {
    let more = json!({"status": "ACTIVE", "availability_zones": [], "availability_zone_hints": [], "flavor_id": null});
    let mut value = with(router, more)?;
    if caller.0.is_admin() {
        value["distributed"] = json!(false);
        value["ha"] = json!(false);
    }
    Ok(value)
}
