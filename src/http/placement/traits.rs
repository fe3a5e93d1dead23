//! All traits, and the traits of a provider.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::json;

use super::{Service, admit, error, id_of, invalid, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;

const SINCE: u16 = 6;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/traits").route(web::get().to(list)))
        .service(
            web::resource("/placement/traits/{name}")
                .route(web::get().to(show))
                .route(web::put().to(create))
                .route(web::delete().to(delete)),
        )
        .service(
            web::resource("/placement/resource_providers/{uuid}/traits")
                .route(web::get().to(of_provider))
                .route(web::put().to(replace))
                .route(web::delete().to(clear)),
        );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filters {
    name: Option<String>,
    associated: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    resource_provider_generation: i64,
    traits: Vec<String>,
}

async fn list(service: Service, caller: Caller, version: ApiVersion, filters: web::Query<Filters>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let mut traits = service.traits().await.map_err(refusal)?;
    match filters.name.as_deref().map(|name| name.split_once(':')) {
        None => {}
        Some(Some(("in", names))) => {
            let wanted: BTreeSet<&str> = names.split(',').collect();
            traits.retain(|name| wanted.contains(name.as_str()));
        }
        Some(Some(("startswith", prefix))) => traits.retain(|name| name.starts_with(prefix)),
        Some(_) => return Err(invalid("The filter is name=in:A,B or name=startswith:PREFIX")),
    }
    if let Some(associated) = &filters.associated {
        let wanted = associated.eq_ignore_ascii_case("true") || associated == "1";
        let tree = service.provider_tree().await.map_err(refusal)?;
        let used: BTreeSet<&String> = tree.iter().flat_map(|(provider, _)| &provider.traits).collect();
        traits.retain(|name| used.contains(name) == wanted);
    }
    Ok(HttpResponse::Ok().json(json!({"traits": traits})))
}

async fn show(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    if service.traits().await.map_err(refusal)?.contains(&name) {
        return Ok(HttpResponse::NoContent().finish());
    }
    Err(error(StatusCode::NOT_FOUND, format!("No such trait(s): {name}.")))
}

async fn create(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let location = ("Location", format!("/placement/traits/{name}"));
    let made = service.create_trait(name.into_inner()).await.map_err(refusal)?;
    let status = if made { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    Ok(HttpResponse::build(status).insert_header(location).finish())
}

async fn delete(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    service.delete_trait(name.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn of_provider(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let (provider, _) = service.provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"traits": provider.traits, "resource_provider_generation": provider.generation})))
}

async fn replace(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let (uuid, Wanted { resource_provider_generation, traits }) = (id_of("resource provider", &uuid)?, wanted.into_inner());
    let (provider, _) = service.set_traits(uuid, Some(resource_provider_generation), traits).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(json!({"traits": provider.traits, "resource_provider_generation": provider.generation})))
}

async fn clear(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    service.set_traits(id_of("resource provider", &uuid)?, None, Vec::new()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}
