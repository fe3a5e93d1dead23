//! Networks.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::NetworkRecord;
use crate::network::routes::{Service, Wanted, attributes, id_of, reader, refusal, wanted, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/networks").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/networks/{id}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.networks(reader(&caller)?).await.map_err(refusal)?;
    let items = found.iter().map(|thing| body(thing, &caller)).collect::<Result<_, _>>()?;
    query.answer(&request, "networks", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.network_record(reader(&caller)?, id_of("Network", &id)?).await.map_err(refusal)?;
    Ok(query.one("network", body(&found, &caller)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let made = match wanted(request.into_inner(), "network", "networks")? {
        Wanted::One(attributes) => {
            let made = service.create_network(writer(&caller)?, attributes).await.map_err(refusal)?;
            json!({"network": body(&made, &caller)?})
        }
        Wanted::Several(all) => {
            let made = service.create_networks(writer(&caller)?, all).await.map_err(refusal)?;
            json!({"networks": made.iter().map(|one| body(one, &caller)).collect::<Result<Vec<_>, _>>()?})
        }
    };
    Ok(HttpResponse::Created().json(made))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "network")?;
    let changed = service.update_network(writer(&caller)?, id_of("Network", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"network": body(&changed, &caller)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_network(writer(&caller)?, id_of("Network", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn body(network: &NetworkRecord, caller: &Caller) -> Result<Value, ApiError> {
    let status = if network.admin_state_up { "ACTIVE" } else { "DOWN" };
    let mut value = with(
        network,
        json!({
            "status": status,
            "availability_zones": [],
            "availability_zone_hints": [],
            "ipv4_address_scope": null,
            "ipv6_address_scope": null,
        }),
    )?;
    if let Some(map) = value.as_object_mut().filter(|_| !caller.0.is_admin()) {
        map.retain(|name, _| !name.starts_with("provider:"));
    }
    Ok(value)
}
