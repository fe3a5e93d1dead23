//! Bindings of a port per host (the extension "binding-extended"), for administrators.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::routes::{Service, administrator, attributes, error, id_of, no_such_resource, refusal};
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

async fn list(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let query = ListQuery::of(&request)?;
    let found = service.bindings(id_of("Port", &id)?).await.map_err(refusal)?;
    query.answer(&request, "bindings", found.iter().map(body).collect())
}

async fn show(service: Service, caller: Caller, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let (id, host) = path.into_inner();
    let found = service.bindings(id_of("Port", &id)?).await.map_err(refusal)?.into_iter().find(|binding| binding.host == host);
    let binding =
        found.ok_or_else(|| error(StatusCode::NOT_FOUND, format!("Binding for port {id} for host {host} could not be found.")))?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&binding)})))
}

async fn create(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let wanted = attributes(request.into_inner(), "binding")?;
    let made = service.add_binding(id_of("Port", &id)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"binding": body(&made)})))
}

async fn update(
    service: Service,
    caller: Caller,
    path: web::Path<(String, String)>,
    request: Json<Value>,
) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let changes = attributes(request.into_inner(), "binding")?;
    let (id, host) = path.into_inner();
    let changed = service.update_binding(id_of("Port", &id)?, host, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&changed)})))
}

async fn activate(service: Service, caller: Caller, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let (id, host) = path.into_inner();
    let active = service.switch_binding(id_of("Port", &id)?, host).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"binding": body(&active)})))
}

async fn delete(service: Service, caller: Caller, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    permitted(&service, &caller)?;
    let (id, host) = path.into_inner();
    service.remove_binding(id_of("Port", &id)?, host).await.map_err(refusal)?;
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
