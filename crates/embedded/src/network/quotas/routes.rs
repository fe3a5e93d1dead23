//! Quotas of projects. Users may read their own project's quotas; administrators may read and set all.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::{Caller, known_project};
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use serde_json::{Map, Value, json};

use crate::identity::Authenticator;
use crate::network::routes::{Service, administrator, attributes, error, reader, refusal};

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
async fn list(service: Service, caller: Caller) -> Result<HttpResponse, ApiError> {
    administrator(&caller)?;
    let quotas = service.quotas().await.map_err(refusal)?;
    let of_project = |(project, limits): (String, BTreeMap<String, i64>)| {
        let mut quota = json!(limits);
        quota["project_id"] = json!(project);
        quota["tenant_id"] = json!(project);
        quota
    };
    Ok(HttpResponse::Ok().json(json!({"quotas": quotas.into_iter().map(of_project).collect::<Vec<_>>()})))
}

async fn show(
    service: Service,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &caller, &project).await?;
    let limits = service.quota(project.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"quota": limits})))
}

async fn default(
    service: Service,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &caller, &project).await?;
    Ok(HttpResponse::Ok().json(json!({"quota": service.default_quota()})))
}

async fn details(
    service: Service,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    permitted(&**identity, &caller, &project).await?;
    let rooms = service.quota_usage(project.into_inner()).await.map_err(refusal)?;
    let rooms = rooms.into_iter().map(|(name, room)| (name, json!({"limit": room.limit, "used": room.used, "reserved": 0})));
    Ok(HttpResponse::Ok().json(json!({"quota": rooms.collect::<Map<String, Value>>()})))
}

async fn update(
    service: Service,
    identity: web::Data<dyn Authenticator>,
    caller: Caller,
    project: web::Path<String>,
    request: Json<Value>,
) -> Result<HttpResponse, ApiError> {
    administrator(&caller)?;
    known_project(&**identity, &caller, ErrorForm::Network, &project).await?;
    let wanted = attributes(request.into_inner(), "quota")?;
    let limits = service.set_quota(project.into_inner(), wanted).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"quota": limits})))
}

async fn delete(service: Service, caller: Caller, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    administrator(&caller)?;
    service.reset_quota(project.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Answers 403 to non-administrators for another project's quotas, and 400 if the project does not exist.
async fn permitted(identity: &dyn Authenticator, caller: &Caller, project: &str) -> Result<(), ApiError> {
    reader(caller)?;
    if caller.0.is_admin() || caller.0.project_id == project {
        return known_project(identity, caller, ErrorForm::Network, project).await;
    }
    Err(error(StatusCode::FORBIDDEN, "Another project's quotas are for administrators: disallowed by policy"))
}
