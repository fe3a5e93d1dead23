//! Resource providers.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Service, admit, amounts, id_of, invalid, refusal, required_traits};
use crate::env::Env;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;
use crate::services::placement::tree::Tree;
use crate::services::placement::{Identity, Provider};

/// The minor version from which providers form trees.
const TREES: u16 = 14;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/resource_providers").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/placement/resource_providers/{uuid}")
            .route(web::get().to(show))
            .route(web::put().to(update))
            .route(web::delete().to(delete)),
    );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filters {
    name: Option<String>,
    uuid: Option<String>,
    resources: Option<String>,
    required: Option<String>,
    member_of: Option<String>,
    in_tree: Option<Uuid>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    uuid: Option<Uuid>,
    #[serde(default)]
    parent_provider_uuid: Option<Uuid>,
}

async fn list(service: Service, caller: Caller, version: ApiVersion, filters: web::Query<Filters>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let resources = filters.resources.as_deref().map(amounts).transpose()?.unwrap_or_default();
    let required = filters.required.as_deref().map(required_traits).transpose()?.unwrap_or_default();
    let member_of = filters.member_of.as_deref().map(aggregates).transpose()?;
    let tree = super::tree(&service).await?;
    let root = filters.in_tree.map(|uuid| tree.root(uuid));
    let kept = tree.providers.iter().filter(|provider| {
        filters.name.as_ref().is_none_or(|name| *name == provider.name)
            && filters.uuid.as_ref().is_none_or(|uuid| *uuid == provider.uuid.to_string())
            && root.is_none_or(|root| tree.root(provider.uuid) == root)
            && has_all(provider, &required)
            && member_of.as_ref().is_none_or(|wanted| provider.aggregates.iter().any(|held| wanted.contains(&held.id())))
            && has_room(provider, &resources)
    });
    let bodies: Vec<Value> = kept.map(|provider| body(provider, &tree, version)).collect();
    Ok(HttpResponse::Ok().json(json!({"resource_providers": bodies})))
}

async fn show(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let (provider, _) = service.provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    let tree = super::tree(&service).await?;
    Ok(HttpResponse::Ok().json(body(&provider, &tree, version)))
}

async fn create(
    service: Service,
    env: web::Data<Env>,
    caller: Caller,
    version: ApiVersion,
    request: HttpRequest,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let wanted = wanted.into_inner();
    let uuid = wanted.uuid.unwrap_or_else(|| env.uuid());
    let identity = Identity { uuid, name: named(wanted.name)?, parent: wanted.parent_provider_uuid };
    let (provider, _) = service.create_provider(identity).await.map_err(refusal)?;
    let location = ("Location", format!("{}/placement/resource_providers/{uuid}", base_url::of(&request)));
    if !version.at_least(20) {
        return Ok(HttpResponse::Created().insert_header(location).finish());
    }
    let tree = super::tree(&service).await?;
    Ok(HttpResponse::Ok().insert_header(location).json(body(&provider, &tree, version)))
}

async fn update(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    uuid: web::Path<String>,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    let uuid = id_of("resource provider", &uuid)?;
    let (_, parent) = service.provider(uuid).await.map_err(refusal)?;
    let wanted = wanted.into_inner();
    let identity = Identity { uuid, name: named(wanted.name)?, parent: wanted.parent_provider_uuid.or(parent) };
    let (provider, _) = service.update_provider(identity).await.map_err(refusal)?;
    let tree = super::tree(&service).await?;
    Ok(HttpResponse::Ok().json(body(&provider, &tree, version)))
}

async fn delete(service: Service, caller: Caller, version: ApiVersion, uuid: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, 0)?;
    service.delete_provider(id_of("resource provider", &uuid)?).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn named(name: String) -> Result<String, ApiError> {
    if name.is_empty() || name.chars().count() > 200 {
        return Err(invalid("A resource provider's name has 1 to 200 characters."));
    }
    Ok(name)
}

fn has_all(provider: &Provider, required: &[String]) -> bool {
    let held: BTreeSet<&String> = provider.traits.iter().collect();
    required.iter().all(|name| held.contains(name))
}

fn has_room(provider: &Provider, resources: &BTreeMap<String, i64>) -> bool {
    resources.iter().all(|(class, amount)| {
        let used = provider.usages.get(class).copied().unwrap_or(0);
        provider.inventories.get(class).is_some_and(|inventory| *amount <= inventory.capacity().saturating_sub(used))
    })
}

/// Parses `UUID` or `in:UUID,UUID`.
pub(super) fn aggregates(text: &str) -> Result<BTreeSet<Uuid>, ApiError> {
    let list = text.strip_prefix("in:").unwrap_or(text);
    list.split(',')
        .map(|id| Uuid::parse_str(id).map_err(|_| invalid(format!("Expected 'member_of' parameter to contain valid UUIDs, got {text}"))))
        .collect()
}

fn body(provider: &Provider, tree: &Tree, version: ApiVersion) -> Value {
    let uuid = provider.uuid;
    let own = format!("/placement/resource_providers/{uuid}");
    let mut links = vec![json!({"rel": "self", "href": own})];
    for (rel, since) in [("inventories", 0), ("usages", 0), ("aggregates", 1), ("traits", 6), ("allocations", 11)] {
        if version.at_least(since) {
            links.push(json!({"rel": rel, "href": format!("{own}/{rel}")}));
        }
    }
    let mut value = json!({"uuid": uuid, "name": provider.name, "generation": provider.generation, "links": links});
    if version.at_least(TREES) {
        value["parent_provider_uuid"] = json!(tree.parent(uuid));
        value["root_provider_uuid"] = json!(tree.root(uuid));
    }
    value
}
