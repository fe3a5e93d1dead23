//! Subnet pools.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::SubnetPool;
use crate::network::routes::{Service, Wanted, attributes, id_of, reader, refusal, wanted, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/subnetpools").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/subnetpools/{id}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let pools = service.subnet_pools(reader(&caller)?).await.map_err(refusal)?;
    query.answer(&request, "subnetpools", pools.iter().map(body).collect::<Result<_, _>>()?)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let pool = service.subnet_pool(reader(&caller)?, id_of("Subnet pool", &id)?).await.map_err(refusal)?;
    Ok(query.one("subnetpool", body(&pool)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let made = match wanted(request.into_inner(), "subnetpool", "subnetpools")? {
        Wanted::One(attributes) => {
            json!({"subnetpool": body(&service.create_subnet_pool(writer(&caller)?, attributes).await.map_err(refusal)?)?})
        }
        Wanted::Several(all) => {
            let made = service.create_subnet_pools(writer(&caller)?, all).await.map_err(refusal)?;
            json!({"subnetpools": made.iter().map(body).collect::<Result<Vec<_>, _>>()?})
        }
    };
    Ok(HttpResponse::Created().json(made))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "subnetpool")?;
    let changed = service.update_subnet_pool(writer(&caller)?, id_of("Subnet pool", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"subnetpool": body(&changed)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_subnet_pool(writer(&caller)?, id_of("Subnet pool", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Neutron shows the prefix lengths as texts.
fn body(pool: &SubnetPool) -> Result<Value, ApiError> {
    let more = json!({
        "default_prefixlen": pool.default_prefixlen.to_string(),
        "min_prefixlen": pool.min_prefixlen.to_string(),
        "max_prefixlen": pool.max_prefixlen.to_string(),
        "address_scope_id": null,
    });
    with(pool, more)
}
