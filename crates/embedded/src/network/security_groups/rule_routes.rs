//! Rules of security groups.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use serde_json::{Value, json};

use crate::network::query::ListQuery;
use crate::network::records::SecurityGroupRule;
use crate::network::routes::{Call, attributes, error, id_of, reader, refusal, with, writer};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/security-group-rules").route(web::get().to(list)).route(web::post().to(create)))
        .service(web::resource("/network/v2.0/security-group-rules/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&call.request)?;
    let groups = call.service.security_groups(reader(&call.caller)?).await.map_err(refusal)?;
    let items = groups.iter().flat_map(|group| &group.security_group_rules).map(body).collect::<Result<_, _>>()?;
    query.answer(&call.request, "security_group_rules", items)
}

async fn show(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let query = ListQuery::of(&call.request)?;
    let id = id_of("Security group rule", &id)?;
    let groups = call.service.security_groups(reader(&call.caller)?).await.map_err(refusal)?;
    let absent = || error(StatusCode::NOT_FOUND, format!("Security group rule {id} does not exist"));
    let rule = groups.iter().flat_map(|group| &group.security_group_rules).find(|rule| rule.id == id).ok_or_else(absent)?;
    Ok(query.one("security_group_rule", body(rule)?))
}

async fn create(call: Call, Json(document): Json<Value>) -> Result<HttpResponse, ApiError> {
    let rule = attributes(document, "security_group_rule")?;
    let rule = call.service.create_security_group_rule(writer(&call.caller)?, rule).await.map_err(refusal)?;
    Ok(HttpResponse::Created().json(json!({"security_group_rule": body(&rule)?})))
}

async fn delete(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.service.delete_security_group_rule(writer(&call.caller)?, id_of("Security group rule", &id)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the API's view of a rule, alone or inside its group.
pub(in crate::network) fn body(rule: &SecurityGroupRule) -> Result<Value, ApiError> {
    with(rule, json!({"updated_at": rule.created_at, "remote_address_group_id": null}))
}
