//! Inventories of a provider.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Service, admit, error, id_of, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::placement::{Inventory, Provider};

/// The maximum amount, which stands for "no limit".
const UNBOUNDED: i64 = i32::MAX as i64;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/placement/resource_providers/{uuid}/inventories")
            .route(web::get().to(list))
            .route(web::post().to(create))
            .route(web::put().to(replace))
            .route(web::delete().to(clear)),
    )
    .service(
        web::resource("/placement/resource_providers/{uuid}/inventories/{class}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

/// The amounts of one class, with defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Amounts {
    total: i64,
    #[serde(default)]
    reserved: i64,
    #[serde(default = "one")]
    min_unit: i64,
    #[serde(default = "unbounded")]
    max_unit: i64,
    #[serde(default = "one")]
    step_size: i64,
    #[serde(default = "no_ratio")]
    allocation_ratio: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct All {
    resource_provider_generation: i64,
    inventories: BTreeMap<String, Amounts>,
}

/// One class's inventory: its amounts, the generation and, at creation, its class.
#[derive(Deserialize)]
struct One {
    resource_provider_generation: Option<i64>,
    resource_class: Option<String>,
    #[serde(flatten)]
    amounts: serde_json::Map<String, Value>,
}

fn one() -> i64 {
    1
}

fn unbounded() -> i64 {
    UNBOUNDED
}

fn no_ratio() -> f64 {
    1.0
}

async fn list(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (provider, _) = service.provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(all(&provider)))
}

async fn replace(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    request: Json<All>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let All { resource_provider_generation, inventories } = request.into_inner();
    let inventories = inventories.into_iter().map(|(class, amounts)| (class, inventory(amounts))).collect();
    let uuid = id_of("resource provider", &uuid)?;
    let (provider, _) = service.set_inventories(uuid, Some(resource_provider_generation), inventories).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(all(&provider)))
}

async fn clear(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 5)?;
    service.set_inventories(id_of("resource provider", &uuid)?, None, BTreeMap::new()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn create(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    request: Json<One>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let uuid = id_of("resource provider", &uuid)?;
    let request = request.into_inner();
    let class = request.resource_class.clone().ok_or_else(|| super::invalid("'resource_class' is a required property"))?;
    let (provider, _) = service.provider(uuid).await.map_err(refusal)?;
    if provider.inventories.contains_key(&class) {
        return Err(error(StatusCode::CONFLICT, format!("Update conflict: {class} has an inventory already.")));
    }
    let generation = request.resource_provider_generation;
    let (provider, _) = service.set_inventory(uuid, generation, class.clone(), single(request)?).await.map_err(refusal)?;
    let location = ("Location", format!("/placement/resource_providers/{uuid}/inventories/{class}"));
    Ok(HttpResponse::Created().insert_header(location).json(shown(&provider, &class)?))
}

async fn show(service: Service, caller: Caller, version: ApiVersion, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (provider, _) = service.provider(id_of("resource provider", &path.0)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(shown(&provider, &path.1)?))
}

async fn update(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    path: web::Path<(String, String)>,
    request: Json<One>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (uuid, class) = (id_of("resource provider", &path.0)?, path.1.clone());
    let request = request.into_inner();
    let generation = request.resource_provider_generation;
    generation.ok_or_else(|| super::invalid("'resource_provider_generation' is a required property"))?;
    let (provider, _) = service.set_inventory(uuid, generation, class.clone(), single(request)?).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(shown(&provider, &class)?))
}

async fn delete(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    service.delete_inventory(id_of("resource provider", &path.0)?, path.1.clone()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn single(request: One) -> Result<Inventory, ApiError> {
    let amounts = serde_json::from_value(Value::Object(request.amounts));
    amounts.map(inventory).map_err(|e| super::invalid(format!("JSON does not validate: {e}")))
}

fn inventory(amounts: Amounts) -> Inventory {
    Inventory {
        total: amounts.total,
        reserved: amounts.reserved,
        min_unit: amounts.min_unit,
        max_unit: amounts.max_unit,
        step_size: amounts.step_size,
        allocation_ratio: amounts.allocation_ratio,
    }
}

fn all(provider: &Provider) -> Value {
    json!({"resource_provider_generation": provider.generation, "inventories": provider.inventories})
}

fn shown(provider: &Provider, class: &str) -> Result<Value, ApiError> {
    let found = provider.inventories.get(class);
    let inventory = found
        .ok_or_else(|| error(StatusCode::NOT_FOUND, format!("No inventory of class {class} for resource provider {}", provider.uuid)))?;
    let mut value = json!(inventory);
    value["resource_provider_generation"] = json!(provider.generation);
    Ok(value)
}
