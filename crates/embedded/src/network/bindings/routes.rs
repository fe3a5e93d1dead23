//! Bindings of a port per host (the extension "binding-extended"), for administrators.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::routes::{Call, administrator, attributes, error, id_of, no_such_resource, refusal};
use crate::network::{EmbeddedNetwork, PortBinding};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/ports/{id}/bindings").route(web::get().to(list)).route(web::post().to(create)))
        .service(
            web::resource("/network/v2.0/ports/{id}/bindings/{host}")
                .route(web::get().to(show))
                .route(web::put().to(update))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/network/v2.0/ports/{id}/bindings/{host}/activate").route(web::put().to(activate)));
}

async fn list(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let query = ListQuery::of(&call.request)?;
    let bindings = call.service.bindings(id_of("Port", &id)?).await.map_err(refusal)?;
    query.answer(&call.request, "bindings", bindings.iter().map(body).collect())
}

async fn show(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let (id, host) = path.into_inner();
    let absent = || error(StatusCode::NOT_FOUND, format!("Binding for port {id} for host {host} could not be found."));
    let bindings = call.service.bindings(id_of("Port", &id)?).await.map_err(refusal)?;
    let binding = bindings.into_iter().find(|binding| binding.host == host).ok_or_else(absent)?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&binding)})))
}

async fn create(call: Call, id: web::Path<String>, Json(document): Json<Value>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let binding = attributes(document, "binding")?;
    let binding = call.service.add_binding(id_of("Port", &id)?, binding).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"binding": body(&binding)})))
}

async fn update(call: Call, path: web::Path<(String, String)>, Json(document): Json<Value>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let changes = attributes(document, "binding")?;
    let (id, host) = path.into_inner();
    let binding = call.service.update_binding(id_of("Port", &id)?, host, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&binding)})))
}

async fn activate(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let (id, host) = path.into_inner();
    let active = call.service.switch_binding(id_of("Port", &id)?, host).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&active)})))
}

async fn delete(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&call.service, &call.caller)?;
    let (id, host) = path.into_inner();
    call.service.remove_binding(id_of("Port", &id)?, host).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn permitted(service: &EmbeddedNetwork, caller: &Caller) -> Result<(), ApiError> {
    if !service.has_extended_bindings() {
        return Err(no_such_resource());
    }
    administrator(caller).map(|_| ())
}

fn body(binding: &PortBinding) -> Value {
    json!({
        "host": binding.host,
        "status": binding.status,
        "vif_type": binding.vif_type,
        "vif_details": {"port_filter": true, "connectivity": "l2"},
        "vnic_type": binding.vnic_type,
        "profile": binding.profile,
    })
}
