//! The providers that could serve a request, each with the allocation to make.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::candidates::{self, Candidate};
use super::{Service, admit, invalid};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use crate::services::placement::Provider;

const SINCE: u16 = 10;
const BY_PROVIDER: u16 = 12;
const SHOWS_TRAITS: u16 = 17;
const TREES: u16 = 29;
const MAPPINGS: u16 = 34;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/allocation_candidates").route(web::get().to(list)));
}

async fn list(service: Service, caller: Caller, version: ApiVersion, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string()).map_err(|e| invalid(e.to_string()))?;
    let query = candidates::parse(pairs.into_inner(), version)?;
    let tree = super::tree(&service).await?;
    let found = candidates::candidates(&tree, &query);
    let shown: BTreeSet<Uuid> = match version.at_least(TREES) {
        // Every provider of a tree that takes part.
        true => {
            let roots: BTreeSet<Uuid> = found.iter().flat_map(|one| one.providers()).map(|provider| tree.root(provider)).collect();
            tree.providers.iter().map(|provider| provider.uuid).filter(|uuid| roots.contains(&tree.root(*uuid))).collect()
        }
        false => found.iter().flat_map(|one| one.providers()).collect(),
    };
    let requests: Vec<Value> = found.iter().map(|one| allocation_request(one, version)).collect();
    let mut summaries = Map::new();
    for provider in shown.iter().filter_map(|uuid| tree.provider(*uuid)) {
        let mut value = summary(provider, version);
        if version.at_least(TREES) {
            value["parent_provider_uuid"] = json!(tree.parent(provider.uuid));
            value["root_provider_uuid"] = json!(tree.root(provider.uuid));
        }
        summaries.insert(provider.uuid.to_string(), value);
    }
    Ok(HttpResponse::Ok().json(json!({"allocation_requests": requests, "provider_summaries": summaries})))
}

fn allocation_request(candidate: &Candidate, version: ApiVersion) -> Value {
    let allocations = candidate.allocations();
    if !version.at_least(BY_PROVIDER) {
        let one = |(provider, resources): (&Uuid, &BTreeMap<String, i64>)| json!({"resource_provider": {"uuid": provider}, "resources": resources});
        return json!({"allocations": allocations.iter().map(one).collect::<Vec<_>>()});
    }
    let one = |(provider, resources): (&Uuid, &BTreeMap<String, i64>)| (provider.to_string(), json!({"resources": resources}));
    let mut request = json!({"allocations": allocations.iter().map(one).collect::<Map<_, _>>()});
    if version.at_least(MAPPINGS) {
        request["mappings"] = json!(candidate.mappings());
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
