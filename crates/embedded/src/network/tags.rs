//! Tags of networks, subnets, subnet pools, ports, routers, floating IPs, security groups and QoS policies.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::EmbeddedNetwork;
use super::change::Change;
use super::records::Scope;
use super::routes::{Call, error, id_of, no_such_resource, reader, refusal, writer};
use crate::request_bodies::{RequestBody, bodies};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource(["/network/v2.0/{collection}/{id}/tags", "/network/v2.0/qos/{collection}/{id}/tags"])
            .route(web::get().to(list))
            .route(web::put().to(replace))
            .route(web::delete().to(clear)),
    )
    .service(
        web::resource(["/network/v2.0/{collection}/{id}/tags/{tag}", "/network/v2.0/qos/{collection}/{id}/tags/{tag}"])
            .route(web::get().to(check))
            .route(web::put().to(add))
            .route(web::delete().to(remove)),
    );
}

/// The bodies of the requests here.
pub(super) const BODIES: &[RequestBody] = bodies! {
    "network PUT /{}/{}/tags" => Tags,
    "network PUT /qos/{}/{}/tags" => Tags,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tags {
    tags: Vec<String>,
}

async fn list(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let tags = read(&call.service, reader(&call.caller)?, &path.0, &path.1).await?;
    Ok(HttpResponse::Ok().json(json!({"tags": tags})))
}

async fn replace(call: Call, path: web::Path<(String, String)>, body: Json<Tags>) -> Result<HttpResponse, ApiError> {
    let tags = write(&call.service, writer(&call.caller)?, &path.0, &path.1, all(&body.into_inner().tags)).await?;
    Ok(HttpResponse::Ok().json(json!({"tags": tags})))
}

async fn clear(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    write(&call.service, writer(&call.caller)?, &path.0, &path.1, all(&[])).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check(call: Call, path: web::Path<(String, String, String)>) -> Result<HttpResponse, ApiError> {
    let tags = read(&call.service, reader(&call.caller)?, &path.0, &path.1).await?;
    if tags.contains(&path.2) { Ok(HttpResponse::NoContent().finish()) } else { Err(no_tag(&path.2)) }
}

async fn add(call: Call, path: web::Path<(String, String, String)>) -> Result<HttpResponse, ApiError> {
    // Answers 404 before 403, so that a caller who may not see the resource learns nothing about it.
    read(&call.service, reader(&call.caller)?, &path.0, &path.1).await?;
    let change = Change::AddTag(path.2.clone());
    write(&call.service, writer(&call.caller)?, &path.0, &path.1, change).await?;
    Ok(HttpResponse::Created().finish())
}

async fn remove(call: Call, path: web::Path<(String, String, String)>) -> Result<HttpResponse, ApiError> {
    // Answers 404 before 403, so that a caller who may not see the resource learns nothing about it.
    read(&call.service, reader(&call.caller)?, &path.0, &path.1).await?;
    let change = Change::RemoveTag(path.2.clone());
    write(&call.service, writer(&call.caller)?, &path.0, &path.1, change).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn read(service: &EmbeddedNetwork, scope: Scope, collection: &str, id: &str) -> Result<Vec<String>, ApiError> {
    let id = id_of("Resource", id)?;
    match collection {
        "networks" => service.network_record(scope, id).await.map(|thing| thing.tags),
        "subnets" => service.subnet(scope, id).await.map(|thing| thing.tags),
        "subnetpools" => service.subnet_pool(scope, id).await.map(|thing| thing.tags),
        "ports" => service.port_record(scope, id).await.map(|thing| thing.port.tags),
        "floatingips" => service.floating_ip(scope, id).await.map(|thing| thing.tags),
        "routers" => service.router(scope, id).await.map(|thing| thing.tags),
        "security-groups" | "security_groups" => service.security_group(scope, id).await.map(|thing| thing.tags),
        "policies" => service.qos_policy(scope, id).await.map(|thing| thing.tags),
        _ => return Err(no_such_resource()),
    }
    .map_err(refusal)
}

async fn write(service: &EmbeddedNetwork, scope: Scope, collection: &str, id: &str, change: Change) -> Result<Vec<String>, ApiError> {
    let id = id_of("Resource", id)?;
    match collection {
        "networks" => service.update_network(scope, id, change).await.map(|thing| thing.tags),
        "subnets" => service.update_subnet(scope, id, change).await.map(|thing| thing.tags),
        "subnetpools" => service.update_subnet_pool(scope, id, change).await.map(|thing| thing.tags),
        "ports" => service.update_port(scope, id, change).await.map(|thing| thing.port.tags),
        "floatingips" => service.update_floating_ip(scope, id, change).await.map(|thing| thing.tags),
        "routers" => service.update_router(scope, id, change).await.map(|thing| thing.tags),
        "security-groups" | "security_groups" => service.update_security_group(scope, id, change).await.map(|thing| thing.tags),
        "policies" => service.update_qos_policy(scope, id, change).await.map(|thing| thing.tags),
        _ => return Err(no_such_resource()),
    }
    .map_err(refusal)
}

/// Sets exactly these tags.
fn all(tags: &[String]) -> Change {
    Change::Attributes([("tags".to_owned(), json!(tags))].into_iter().collect())
}

fn no_tag(tag: &str) -> ApiError {
    error(StatusCode::NOT_FOUND, format!("Tag {tag} could not be found."))
}
