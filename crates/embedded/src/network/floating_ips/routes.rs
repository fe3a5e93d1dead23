//! Floating IPs.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::Port;
use crate::network::query::ListQuery;
use crate::network::records::FloatingIpRecord;
use crate::network::routes::{Service, attributes, id_of, reader, refusal, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/floatingips").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/floatingips/{id}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.floating_ips(reader(&caller)?).await.map_err(refusal)?;
    let items = found.iter().map(body).collect::<Result<_, _>>()?;
    query.answer(&request, "floatingips", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.floating_ip(reader(&caller)?, id_of("Floating IP", &id)?).await.map_err(refusal)?;
    Ok(query.one("floatingip", body(&found)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let wanted = attributes(request.into_inner(), "floatingip")?;
    let made = service.create_floating_ip(writer(&caller)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"floatingip": body(&made)?})))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "floatingip")?;
    let changed = service.update_floating_ip(writer(&caller)?, id_of("Floating IP", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"floatingip": body(&changed)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_floating_ip(writer(&caller)?, id_of("Floating IP", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the API's view of a floating IP, which is ACTIVE while it leads to a port.
fn body(floating: &FloatingIpRecord) -> Result<Value, ApiError> {
    let status = if floating.port_id.is_some() { "ACTIVE" } else { "DOWN" };
    with(floating, json!({"status": status, "port_details": floating.port_details.as_ref().map(details)}))
}

fn details(port: &Port) -> Value {
    json!({
        "name": port.name,
        "network_id": port.network_id,
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
    })
}
