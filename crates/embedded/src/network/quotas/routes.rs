//! Quotas of projects. Users may read their own project's quotas; administrators may read and set all.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::{Caller, require_project};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use serde_json::{Map, Value, json};

use crate::identity::Authenticator;
use crate::network::routes::{Call, administrator, attributes, error, reader, refusal};

pub(in crate::network) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/network/v2.0/quotas").route(web::get().to(list)))
        .service(
            web::resource("/network/v2.0/quotas/{project}")
                .route(web::get().to(show))
                .route(web::put().to(update))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/network/v2.0/quotas/{project}/default").route(web::get().to(default)))
        .service(
            web::resource(["/network/v2.0/quotas/{project}/details", "/network/v2.0/quotas/{project}/details.json"])
                .route(web::get().to(details)),
        );
}

/// Lists the projects with quotas of their own.
async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    administrator(&call.caller)?;
    let quotas = call.service.quotas().await.map_err(refusal)?;
    let of_project = |(project, limits): (String, BTreeMap<String, i64>)| {
        let mut quota = json!(limits);
        quota["project_id"] = json!(project);
        quota["tenant_id"] = json!(project);
        quota
    };
    Ok(HttpResponse::Ok().json(json!({"quotas": quotas.into_iter().map(of_project).collect::<Vec<_>>()})))
}

async fn show(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &call.caller, &project).await?;
    let limits = call.service.quota(project.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"quota": limits})))
}

async fn default(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &call.caller, &project).await?;
    Ok(HttpResponse::Ok().json(json!({"quota": call.service.default_quota()})))
}

async fn details(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &call.caller, &project).await?;
    let rooms = call.service.quota_usage(project.into_inner()).await.map_err(refusal)?;
    let rooms = rooms.into_iter().map(|(name, room)| (name, json!({"limit": room.limit, "used": room.used, "reserved": 0})));
    Ok(HttpResponse::Ok().json(json!({"quota": rooms.collect::<Map<String, Value>>()})))
}

async fn update(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    project: web::Path<String>,
    Json(body): Json<Value>,
) -> Result<HttpResponse, ApiError> {
    administrator(&call.caller)?;
    require_project(&**identity, &call.caller, ErrorForm::Network, &project).await?;
    let changes = attributes(body, "quota")?;
    let limits = call.service.set_quota(project.into_inner(), changes).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"quota": limits})))
}

async fn delete(call: Call, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    administrator(&call.caller)?;
    call.service.reset_quota(project.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Answers 403 to non-administrators for another project's quotas, and 400 if the project does not exist.
async fn permitted(identity: &dyn Authenticator, caller: &Caller, project: &str) -> Result<(), ApiError> {
    reader(caller)?;
    if caller.0.is_admin() || caller.0.project_id == project {
        return require_project(identity, caller, ErrorForm::Network, project).await;
    }
    Err(error(StatusCode::FORBIDDEN, "Another project's quotas are for administrators: disallowed by policy"))
}
