//! The providers that could serve a request, each with the allocation to make.

use std::collections::BTreeSet;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::resource_providers::aggregates;
use super::{Service, admit, amounts, invalid, refusal, required_traits};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::placement::{PlacementService, Provider};

const SINCE: u16 = 10;
const BY_PROVIDER: u16 = 12;
const LIMIT: u16 = 16;
const SHOWS_TRAITS: u16 = 17;
const TREES: u16 = 29;
const MAPPINGS: u16 = 34;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/allocation_candidates").route(web::get().to(list)));
}

/// The parsed query, which has one group without a suffix.
#[derive(Default)]
struct Wanted {
    resources: Option<String>,
    required: Vec<String>,
    member_of: Vec<BTreeSet<Uuid>>,
    in_tree: Option<Uuid>,
    limit: Option<usize>,
}

async fn list(service: Service, caller: Caller, version: ApiVersion, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let wanted = wanted(&request, version)?;
    let resources = amounts(wanted.resources.as_deref().ok_or_else(|| invalid("The query asks for no resources"))?)?;
    let found = service.candidates(resources.clone(), wanted.required, usize::MAX).await.map_err(refusal)?;
    let tree = super::tree(&service).await?;
    let root = wanted.in_tree.map(|uuid| tree.root(uuid));
    let kept: Vec<Provider> = found
        .into_iter()
        .filter(|provider| wanted.member_of.iter().all(|any| provider.aggregates.iter().any(|held| any.contains(&held.id()))))
        .filter(|provider| root.is_none_or(|root| tree.root(provider.uuid) == root))
        .take(wanted.limit.unwrap_or(usize::MAX))
        .collect();
    let requests: Vec<Value> = kept.iter().map(|provider| allocation_request(provider.uuid, &json!(resources), version)).collect();
    let mut summaries = Map::new();
    for provider in &kept {
        let mut value = summary(provider, version);
        if version.at_least(TREES) {
            value["parent_provider_uuid"] = json!(tree.parent(provider.uuid));
            value["root_provider_uuid"] = json!(tree.root(provider.uuid));
        }
        summaries.insert(provider.uuid.to_string(), value);
    }
    Ok(HttpResponse::Ok().json(json!({"allocation_requests": requests, "provider_summaries": summaries})))
}

fn wanted(request: &HttpRequest, version: ApiVersion) -> Result<Wanted, ApiError> {
    let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string()).map_err(|e| invalid(e.to_string()))?;
    let mut wanted = Wanted::default();
    for (name, value) in pairs.into_inner() {
        match name.as_str() {
            "resources" => wanted.resources = Some(value),
            "required" if version.at_least(SHOWS_TRAITS) => wanted.required.extend(required_traits(&value)?),
            "member_of" if version.at_least(21) => wanted.member_of.push(aggregates(&value)?),
            "in_tree" if version.at_least(31) => {
                wanted.in_tree = Some(Uuid::parse_str(&value).map_err(|_| invalid(format!("{value} is not a UUID")))?);
            }
            "limit" if version.at_least(LIMIT) => {
                wanted.limit = Some(value.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| invalid("limit is a number above 0"))?);
            }
            // With a single group this parameter has no effect.
            "group_policy" if version.at_least(25) => {}
            other => {
                return Err(invalid(format!(
                    "The query parameter {other} is not supported here: requests have one group, without a suffix"
                )));
            }
        }
    }
    Ok(wanted)
}

fn allocation_request(provider: Uuid, resources: &Value, version: ApiVersion) -> Value {
    if !version.at_least(BY_PROVIDER) {
        return json!({"allocations": [{"resource_provider": {"uuid": provider}, "resources": resources}]});
    }
    let mut request = json!({"allocations": {provider.to_string(): {"resources": resources}}});
    if version.at_least(MAPPINGS) {
        request["mappings"] = json!({"": [provider]});
    }
    request
}

fn summary(provider: &Provider, version: ApiVersion) -> Value {
    let used = |class: &str| provider.usages.get(class).copied().unwrap_or(0);
    let resources: Map<String, Value> = provider
        .inventories
        .iter()
        .map(|(class, inventory)| (class.clone(), json!({"capacity": inventory.capacity(), "used": used(class)})))
        .collect();
    let mut value = json!({"resources": resources});
    if version.at_least(SHOWS_TRAITS) {
        value["traits"] = json!(provider.traits);
    }
    value
}
