//! Allocations of one consumer, of several together, and from a provider.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Service, admit, id_of, invalid, refusal};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::placement::{Allocations, EmbeddedPlacement, PlacementService};

/// The minor version from which a consumer has a project and a user, and its allocations are keyed by provider.
const BY_PROVIDER: u16 = 12;
const SEVERAL: u16 = 13;
const CONSUMER_GENERATIONS: u16 = 28;
const MAPPINGS: u16 = 34;
const CONSUMER_TYPES: u16 = 38;
/// The maximum length of a project's or user's id and of a consumer type.
const LENGTH_MAX: usize = 255;
/// The default consumer type.
const USUAL_TYPE: &str = "INSTANCE";

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/allocations").route(web::post().to(several)))
        .service(
            web::resource("/placement/allocations/{consumer}")
                .route(web::get().to(show))
                .route(web::put().to(replace))
                .route(web::delete().to(delete)),
        )
        .service(web::resource("/placement/resource_providers/{uuid}/allocations").route(web::get().to(of_provider)));
}

/// The allocations that a request wants for a consumer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    allocations: Amounts,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
    /// Distinguishes an absent generation from null: null means a new consumer.
    #[serde(default, deserialize_with = "present")]
    consumer_generation: Option<Option<i64>>,
    #[serde(default)]
    consumer_type: Option<String>,
    /// The provider for each group of the request. Only checked, not stored.
    #[serde(default)]
    mappings: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Amounts {
    ByProvider(BTreeMap<Uuid, OfProvider>),
    Listed(Vec<Listed>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfProvider {
    /// The provider's generation, as in answers. Placement ignores it.
    #[serde(default, rename = "generation")]
    _generation: Option<i64>,
    resources: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    resource_provider: Named,
    resources: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    uuid: Uuid,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn show(service: Service, caller: Caller, version: ApiVersion, consumer: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let consumer = Uuid::parse_str(&consumer).map_err(|_| invalid(format!("Malformed allocation data: {consumer}")))?;
    let Some(found) = service.allocations_of(consumer).await.map_err(refusal)? else {
        return Ok(HttpResponse::Ok().json(json!({"allocations": {}})));
    };
    let tree = super::tree(&service).await?;
    let generation = |uuid: Uuid| tree.provider(uuid).map(|provider| provider.generation);
    let by_provider: Map<String, Value> = found
        .allocations
        .iter()
        .map(|(uuid, resources)| (uuid.to_string(), json!({"generation": generation(*uuid), "resources": resources})))
        .collect();
    let mut body = json!({"allocations": by_provider});
    if version.at_least(BY_PROVIDER) {
        body["project_id"] = json!(found.project_id);
        body["user_id"] = json!(found.user_id);
    }
    if version.at_least(CONSUMER_GENERATIONS) {
        body["consumer_generation"] = json!(found.consumer_generation);
    }
    if version.at_least(CONSUMER_TYPES) {
        body["consumer_type"] = json!(found.consumer_type);
    }
    Ok(HttpResponse::Ok().json(body))
}

async fn replace(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    consumer: web::Path<String>,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let consumer = id_of("consumer", &consumer)?;
    let change = change(&service, consumer, wanted.into_inner(), version).await?;
    if change.allocations.is_empty() && !version.at_least(CONSUMER_GENERATIONS) {
        return Err(invalid("Allocations are removed with DELETE below 1.28"));
    }
    service.put_allocations(vec![change]).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn several(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    wanted: Json<BTreeMap<Uuid, Wanted>>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SEVERAL)?;
    let mut changes = Vec::new();
    for (consumer, wanted) in wanted.into_inner() {
        changes.push(change(&service, consumer, wanted, version).await?);
    }
    if changes.is_empty() {
        return Err(invalid("The body names no consumer"));
    }
    service.put_allocations(changes).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn delete(service: Service, caller: Caller, version: ApiVersion, consumer: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    service.delete_allocations(id_of("consumer", &consumer)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn of_provider(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let uuid = id_of("resource provider", &uuid)?;
    let (provider, _) = service.provider(uuid).await.map_err(refusal)?;
    let mut consumers = Map::new();
    for (consumer, held) in service.allocations_on(uuid).await.map_err(refusal)? {
        let mut value = json!({"resources": held.amounts});
        if version.at_least(CONSUMER_GENERATIONS) {
            value["consumer_generation"] = json!(held.generation);
        }
        consumers.insert(consumer.to_string(), value);
    }
    Ok(HttpResponse::Ok().json(json!({"allocations": consumers, "resource_provider_generation": provider.generation})))
}

/// Converts the request for the service. Below 1.28 a caller has no generations and replaces any present allocations.
async fn change(service: &EmbeddedPlacement, consumer: Uuid, wanted: Wanted, version: ApiVersion) -> Result<Allocations, ApiError> {
    check_words(&wanted, version)?;
    let stored = service.allocations_of(consumer).await.map_err(refusal)?;
    let consumer_generation = match (version.at_least(CONSUMER_GENERATIONS), wanted.consumer_generation) {
        (true, Some(generation)) => generation,
        (true, None) => return Err(invalid("'consumer_generation' is a required property")),
        (false, _) => stored.as_ref().and_then(|stored| stored.consumer_generation),
    };
    let allocations = match (wanted.allocations, version.at_least(BY_PROVIDER)) {
        (Amounts::ByProvider(map), true) => map.into_iter().map(|(uuid, amounts)| (uuid, amounts.resources)).collect(),
        (Amounts::Listed(list), false) => list.into_iter().map(|listed| (listed.resource_provider.uuid, listed.resources)).collect(),
        _ => return Err(invalid("'allocations' is a list below 1.12 and an object by provider from there on")),
    };
    // Before 1.8 a consumer had no owner; an owner that it has already stays.
    let owner = |given: Option<String>, held: Option<&String>, name: &str| match (given, held) {
        (Some(given), _) => Ok(given),
        (None, Some(held)) => Ok(held.clone()),
        (None, None) if version.at_least(8) => Err(invalid(format!("'{name}' is a required property"))),
        (None, None) => Ok("00000000-0000-0000-0000-000000000000".to_owned()),
    };
    let held_type = stored.as_ref().map_or(USUAL_TYPE, |stored| stored.consumer_type.as_str()).to_owned();
    Ok(Allocations {
        consumer,
        consumer_generation,
        project_id: owner(wanted.project_id, stored.as_ref().map(|s| &s.project_id), "project_id")?,
        user_id: owner(wanted.user_id, stored.as_ref().map(|s| &s.user_id), "user_id")?,
        consumer_type: wanted.consumer_type.unwrap_or(held_type),
        allocations,
    })
}

fn check_words(wanted: &Wanted, version: ApiVersion) -> Result<(), ApiError> {
    for (name, value) in [("project_id", &wanted.project_id), ("user_id", &wanted.user_id)] {
        if value.as_ref().is_some_and(|id| id.is_empty() || id.chars().count() > LENGTH_MAX) {
            return Err(invalid(format!("JSON does not validate: '{name}' has 1 to {LENGTH_MAX} characters")));
        }
    }
    let is_type = |text: &String| {
        (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    if wanted.consumer_type.as_ref().is_some_and(|text| !version.at_least(CONSUMER_TYPES) || !is_type(text)) {
        return Err(invalid(format!("JSON does not validate: 'consumer_type' is A-Z, 0-9 and _ from 1.{CONSUMER_TYPES} on")));
    }
    if wanted.mappings.is_some() && !version.at_least(MAPPINGS) {
        return Err(invalid(format!("JSON does not validate: 'mappings' was unexpected before 1.{MAPPINGS}")));
    }
    let empty = match &wanted.allocations {
        Amounts::ByProvider(map) => map.values().any(|held| held.resources.is_empty()),
        Amounts::Listed(list) => list.iter().any(|held| held.resources.is_empty()),
    };
    if empty {
        return Err(invalid("JSON does not validate: 'resources' names at least one resource class"));
    }
    Ok(())
}
