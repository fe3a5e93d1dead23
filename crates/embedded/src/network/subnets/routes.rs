//! Subnets.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::SubnetRecord;
use crate::network::routes::{Service, Wanted, attributes, id_of, reader, refusal, wanted, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/subnets").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/subnets/{id}").route(web::get().to(show)).route(web::put().to(update)).route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.subnets(reader(&caller)?).await.map_err(refusal)?;
    let items = found.iter().map(|thing| body(thing, &caller)).collect::<Result<_, _>>()?;
    query.answer(&request, "subnets", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.subnet(reader(&caller)?, id_of("Subnet", &id)?).await.map_err(refusal)?;
    Ok(query.one("subnet", body(&found, &caller)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let made = match wanted(request.into_inner(), "subnet", "subnets")? {
        Wanted::One(attributes) => {
            let made = service.create_subnet(writer(&caller)?, attributes).await.map_err(refusal)?;
            json!({"subnet": body(&made, &caller)?})
        }
        Wanted::Several(all) => {
            let made = service.create_subnets(writer(&caller)?, all).await.map_err(refusal)?;
            json!({"subnets": made.iter().map(|one| body(one, &caller)).collect::<Result<Vec<_>, _>>()?})
        }
    };
    Ok(HttpResponse::Created().json(made))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "subnet")?;
    let changed = service.update_subnet(writer(&caller)?, id_of("Subnet", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"subnet": body(&changed, &caller)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_subnet(writer(&caller)?, id_of("Subnet", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn body(subnet: &SubnetRecord, _caller: &Caller) -> Result<Value, ApiError> {
    with(subnet, json!({"ipv6_address_mode": null, "ipv6_ra_mode": null, "segment_id": null, "service_types": []}))
}
