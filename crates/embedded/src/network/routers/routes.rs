//! Routers, their interfaces and their extra routes.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::RouterRecord;
use crate::network::routes::{Service, attributes, id_of, reader, refusal, unnamed, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/routers").route(web::get().to(list)).route(web::post().to(create)))
        .service(
            web::resource("/network/v2.0/routers/{id}")
                .route(web::get().to(show))
                .route(web::put().to(update))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/network/v2.0/routers/{id}/add_router_interface").route(web::put().to(add_interface)))
        .service(web::resource("/network/v2.0/routers/{id}/remove_router_interface").route(web::put().to(remove_interface)))
        .service(web::resource("/network/v2.0/routers/{id}/add_extraroutes").route(web::put().to(add_routes)))
        .service(web::resource("/network/v2.0/routers/{id}/remove_extraroutes").route(web::put().to(remove_routes)));
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.routers(reader(&caller)?).await.map_err(refusal)?;
    let items = found.iter().map(|router| body(router, &caller)).collect::<Result<_, _>>()?;
    query.answer(&request, "routers", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.router(reader(&caller)?, id_of("Router", &id)?).await.map_err(refusal)?;
    Ok(query.one("router", body(&found, &caller)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let wanted = attributes(request.into_inner(), "router")?;
    let made = service.create_router(writer(&caller)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"router": body(&made, &caller)?})))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "router")?;
    let changed = service.update_router(writer(&caller)?, id_of("Router", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"router": body(&changed, &caller)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_router(writer(&caller)?, id_of("Router", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn add_interface(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let wanted = unnamed(request.into_inner())?;
    let added = service.add_interface(writer(&caller)?, id_of("Router", &id)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(with(&added, json!({}))?))
}

async fn remove_interface(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let unwanted = unnamed(request.into_inner())?;
    let removed = service.remove_interface(writer(&caller)?, id_of("Router", &id)?, unwanted).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(with(&removed, json!({}))?))
}

async fn add_routes(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    change_routes(service, caller, &id, request.into_inner(), true).await
}

async fn remove_routes(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    change_routes(service, caller, &id, request.into_inner(), false).await
}

async fn change_routes(service: Service, caller: Caller, id: &str, request: Value, adds: bool) -> Result<HttpResponse, ApiError> {
    let routes = attributes(request, "router")?;
    let changed = service.change_routes(writer(&caller)?, id_of("Router", id)?, routes, adds).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"router": body(&changed, &caller)?})))
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
