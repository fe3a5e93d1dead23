//! Rules of security groups.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::SecurityGroupRule;
use crate::network::routes::{Service, attributes, error, id_of, reader, refusal, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/security-group-rules").route(web::get().to(list)).route(web::post().to(create)))
        .service(web::resource("/network/v2.0/security-group-rules/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

async fn list(service: Service, caller: Caller, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let groups = service.security_groups(reader(&caller)?).await.map_err(refusal)?;
    let items = groups.iter().flat_map(|group| &group.security_group_rules).map(body).collect::<Result<_, _>>()?;
    query.answer(&request, "security_group_rules", items)
}

async fn show(service: Service, caller: Caller, request: HttpRequest, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&request)?;
    let id = id_of("Security group rule", &id)?;
    let groups = service.security_groups(reader(&caller)?).await.map_err(refusal)?;
    let found = groups.iter().flat_map(|group| &group.security_group_rules).find(|rule| rule.id == id);
    let rule = found.ok_or_else(|| error(StatusCode::NOT_FOUND, format!("Security group rule {id} does not exist")))?;
    Ok(query.one("security_group_rule", body(rule)?))
}

async fn create(service: Service, caller: Caller, request: Json<Value>) -> Result<HttpResponse, ApiError> {
    let wanted = attributes(request.into_inner(), "security_group_rule")?;
    let made = service.create_security_group_rule(writer(&caller)?, wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"security_group_rule": body(&made)?})))
}

async fn delete(service: Service, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    service.delete_security_group_rule(writer(&caller)?, id_of("Security group rule", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the API's view of a rule, alone or inside its group.
pub(in crate::network) fn body(rule: &SecurityGroupRule) -> Result<Value, ApiError> {
    with(rule, json!({"updated_at": rule.created_at, "remote_address_group_id": null}))
}
