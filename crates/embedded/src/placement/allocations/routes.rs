//! Allocations of one consumer, of several together, and from a provider.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::schema::Schema;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::bodies::{self as consumers, CHANGES, CONSUMER_GENERATIONS, CONSUMER_TYPES};
use crate::placement::PlacementService;
use crate::placement::body;
use crate::placement::routes::{Call, provider_id, refusal};

/// The minor version from which the allocations of a consumer name its project and user.
const OWNERS_SHOWN: u16 = 12;
/// The minor version from which those of several consumers can be replaced together.
const SEVERAL: u16 = 13;

pub(in crate::placement) static REPLACE: Schema = Schema::new(CHANGES, |minor| consumers::schema(minor, minor >= CONSUMER_GENERATIONS));
pub(in crate::placement) static REPLACE_SEVERAL: Schema = Schema::new(CHANGES, |minor| several_schema(minor, 1));

/// Describes the requested allocations of at least so many consumers, by id.
pub(in crate::placement) fn several_schema(minor: u16, least: u8) -> Value {
    json!({
        "type": "object",
        "minProperties": least,
        "patternProperties": {"^[0-9a-fA-F-]{32,36}$": consumers::schema(minor, true)},
        "additionalProperties": false,
    })
}

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/allocations").route(web::post().to(several)))
        .service(
            web::resource("/allocations/{consumer}")
                .route(web::get().to(show))
                .route(web::put().to(replace))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/resource_providers/{uuid}/allocations").route(web::get().to(of_provider)));
}

async fn show(call: Call, consumer: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let consumer = consumers::id(&consumer)?;
    let Some(held) = call.service.allocations_of(consumer).await.map_err(refusal)? else {
        return Ok(HttpResponse::Ok().json(json!({"allocations": {}})));
    };
    let tree = call.tree().await?;
    let generation = |uuid: Uuid| tree.provider(uuid).map(|provider| provider.generation);
    let by_provider: Map<String, Value> = held
        .allocations
        .iter()
        .map(|(uuid, resources)| (uuid.to_string(), json!({"generation": generation(*uuid), "resources": resources})))
        .collect();
    let mut body = json!({"allocations": by_provider});
    if call.version.at_least(OWNERS_SHOWN) {
        body["project_id"] = json!(held.project_id);
        body["user_id"] = json!(held.user_id);
    }
    if call.version.at_least(CONSUMER_GENERATIONS) {
        body["consumer_generation"] = json!(held.consumer_generation);
    }
    if call.version.at_least(CONSUMER_TYPES) {
        body["consumer_type"] = json!(held.consumer_type);
    }
    Ok(HttpResponse::Ok().json(body))
}

async fn replace(call: Call, consumer: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let consumer = consumers::id(&consumer)?;
    let document = body::read(body, &REPLACE, call.version).await?;
    let change = consumers::change(&call.service, consumer, body::parsed(&document)?, call.version).await?;
    call.service.put_allocations(vec![change]).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn several(call: Call, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SEVERAL)?;
    let document = body::read(body, &REPLACE_SEVERAL, call.version).await?;
    let changes = consumers::changes(&call.service, body::parsed(&document)?, call.version).await?;
    call.service.put_allocations(changes).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn delete(call: Call, consumer: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    call.service.delete_allocations(consumers::id(&consumer)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn of_provider(call: Call, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(0)?;
    let uuid = provider_id(&uuid)?;
    let (provider, _) = call.service.provider(uuid).await.map_err(refusal)?;
    let mut consumers = Map::new();
    for (consumer, held) in call.service.allocations_on(uuid).await.map_err(refusal)? {
        let mut value = json!({"resources": held.amounts});
        if call.version.at_least(CONSUMER_GENERATIONS) {
            value["consumer_generation"] = json!(held.generation);
        }
        consumers.insert(consumer.to_string(), value);
    }
    Ok(HttpResponse::Ok().json(json!({"allocations": consumers, "resource_provider_generation": provider.generation})))
}
