//! Security groups.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::SecurityGroup;
use crate::network::routes::{Service, attributes, id_of, reader, refusal, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/security-groups").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/network/v2.0/security-groups/{id}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.security_groups(reader(&caller)?).await.map_err(refusal)?;
    let items = found.iter().map(|thing| body(thing, &caller)).collect::<Result<_, _>>()?;
    query.answer(&request, "security_groups", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let found = service.security_group(reader(&caller)?, id_of("Security group", &id)?).await.map_err(refusal)?;
    Ok(query.one("security_group", body(&found, &caller)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let wanted = attributes(request.into_inner(), "security_group")?;
    let made = service.create_security_group(writer(&caller)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"security_group": body(&made, &caller)?})))
}

async fn update(service: Service, caller: Caller, id: web::Path<String>, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let changes = attributes(request.into_inner(), "security_group")?;
    let changed = service.update_security_group(writer(&caller)?, id_of("Security group", &id)?, changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"security_group": body(&changed, &caller)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_security_group(writer(&caller)?, id_of("Security group", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn body(group: &SecurityGroup, _caller: &Caller) -> Result<Value, ApiError> {
    let rules = group.security_group_rules.iter().map(super::rule_routes::body).collect::<Result<Vec<_>, _>>()?;
    with(group, json!({"security_group_rules": rules, "shared": false}))
}
