//! Inventories of a provider.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::microversion::ApiVersion;
use cellshift_web::schema::{Schema, object};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::placement::body;
use crate::placement::routes::{Call, error, has_method, provider_id, refusal};
use crate::placement::{AMOUNT_MAX, Inventory, Provider, Put, RATIO_MAX};

/// The minor version from which all inventories of a provider can be removed at once.
const CLEAR: u16 = 5;
/// The minor version from which everything may be reserved.
const ALL_RESERVED: u16 = 26;
/// The names of resource classes.
const CLASSES: &str = "^[A-Z0-9_]+$";

pub(in crate::placement) static CREATE: Schema = Schema::fixed(|_| {
    let class = json!({"type": "string", "pattern": CLASSES, "maxLength": 255});
    amounts_with(&[("resource_class", class), ("resource_provider_generation", json!({"type": "integer"}))], &["resource_class"])
});
pub(in crate::placement) static UPDATE: Schema = Schema::fixed(|_| {
    let generation = json!({"type": "integer"});
    amounts_with(&[("resource_provider_generation", generation)], &["resource_provider_generation"])
});
pub(in crate::placement) static REPLACE: Schema = Schema::fixed(|_| all_schema());

/// Describes the inventories that a provider is to have, with its generation.
pub(in crate::placement) fn all_schema() -> Value {
    let inventories = json!({"type": "object", "patternProperties": {CLASSES: amounts_with(&[], &[])}, "additionalProperties": false});
    object(
        &json!({"resource_provider_generation": {"type": "integer"}, "inventories": inventories}),
        &["resource_provider_generation", "inventories"],
    )
}

fn amounts_with(more: &[(&str, Value)], required: &[&str]) -> Value {
    let amount = |least: u8| json!({"type": "integer", "minimum": least, "maximum": AMOUNT_MAX});
    let mut properties = json!({
        "total": amount(1),
        "reserved": amount(0),
        "min_unit": amount(1),
        "max_unit": amount(1),
        "step_size": amount(1),
        "allocation_ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": RATIO_MAX},
    });
    for (name, schema) in more {
        properties[*name] = schema.clone();
    }
    object(&properties, &[&["total"], required].concat())
}

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/resource_providers/{uuid}/inventories")
            .route(web::get().to(list))
            .route(web::post().to(create))
            .route(web::put().to(replace))
            .route(web::delete().to(clear)),
    )
    .service(
        web::resource("/resource_providers/{uuid}/inventories/{class}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

/// The amounts of one class, with defaults.
#[derive(Deserialize)]
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

/// All inventories that a provider is to have.
#[derive(Deserialize)]
pub(in crate::placement) struct All {
    resource_provider_generation: i64,
    inventories: BTreeMap<String, Amounts>,
}

/// A class's inventory: its amounts, the generation and, at creation, its class.
#[derive(Deserialize)]
struct One {
    resource_provider_generation: Option<i64>,
    resource_class: Option<String>,
    #[serde(flatten)]
    amounts: Amounts,
}

fn one() -> i64 {
    1
}

fn unbounded() -> i64 {
    AMOUNT_MAX
}

fn no_ratio() -> f64 {
    1.0
}

async fn list(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (provider, _) = call.provider(&uuid).await?;
    Ok(HttpResponse::Ok().json(all(&provider)))
}

async fn replace(call: Call, uuid: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (Provider { uuid, .. }, _, document) = call.change_of_provider(&uuid, body, &REPLACE).await?;
    let (generation, inventories) = read_all(uuid, body::parsed(&document)?, call.version)?;
    let (provider, _) = call.service.set_inventories(uuid, Some(generation), inventories).await.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(all(&provider)))
}

/// Returns the generation and the inventories of a request.
pub(in crate::placement) fn read_all(
    provider: uuid::Uuid,
    all: All,
    version: ApiVersion,
) -> Result<(i64, BTreeMap<String, Inventory>), ApiError> {
    let inventories = all.inventories.into_iter().map(|(class, amounts)| {
        let inventory = inventory(amounts);
        check(provider, &class, &inventory, version, "update").map(|()| (class, inventory))
    });
    Ok((all.resource_provider_generation, inventories.collect::<Result<_, _>>()?))
}

async fn clear(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    has_method(call.version, CLEAR)?;
    call.service.set_inventories(provider_id(&uuid)?, None, BTreeMap::new()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn create(call: Call, uuid: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (Provider { uuid, .. }, _, document) = call.change_of_provider(&uuid, body, &CREATE).await?;
    let One { resource_provider_generation, resource_class, amounts } = body::parsed(&document)?;
    let (class, inventory) = (resource_class.unwrap_or_default(), inventory(amounts));
    check(uuid, &class, &inventory, call.version, "create")?;
    let outcome = call.service.set_inventory(uuid, resource_provider_generation, class.clone(), inventory, Put::Adds).await;
    let (provider, _) = outcome.map_err(refusal)?;
    let location = ("Location", format!("{}/placement/resource_providers/{uuid}/inventories/{class}", base_url::of(&call.request)));
    Ok(HttpResponse::Created().insert_header(location).json(shown(&provider, &class)?))
}

async fn show(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (provider, _) = call.provider(&path.0).await?;
    Ok(HttpResponse::Ok().json(shown(&provider, &path.1)?))
}

async fn update(call: Call, path: web::Path<(String, String)>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let (uuid, class) = path.into_inner();
    let (Provider { uuid, .. }, _, document) = call.change_of_provider(&uuid, body, &UPDATE).await?;
    let One { resource_provider_generation, amounts, .. } = body::parsed(&document)?;
    let inventory = inventory(amounts);
    check(uuid, &class, &inventory, call.version, "update")?;
    let set = call.service.set_inventory(uuid, resource_provider_generation, class.clone(), inventory, Put::Changes).await;
    let (provider, _) = set.map_err(refusal)?;
    Ok(HttpResponse::Ok().json(shown(&provider, &class)?))
}

async fn delete(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    call.service.delete_inventory(provider_id(&path.0)?, path.1.clone()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Refuses an inventory that reserves more than there is, and before 1.26 one that reserves everything.
fn check(provider: uuid::Uuid, class: &str, inventory: &Inventory, version: ApiVersion, verb: &str) -> Result<(), ApiError> {
    let (most, than) = match version.at_least(ALL_RESERVED) {
        true => (inventory.total, "greater than total"),
        false => (inventory.total - 1, "greater than or equal to total"),
    };
    if inventory.reserved <= most {
        return Ok(());
    }
    Err(crate::placement::routes::invalid(format!(
        "Unable to {verb} inventory for resource provider {provider}: Invalid inventory for '{class}': the reserved value is {than}."
    )))
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
    let absent = || error(StatusCode::NOT_FOUND, format!("No inventory of class {class} for {}", provider.uuid));
    let inventory = provider.inventories.get(class).ok_or_else(absent)?;
    let mut value = json!(inventory);
    value["resource_provider_generation"] = json!(provider.generation);
    Ok(value)
}
