//! The providers that could serve a request, each with the allocation to make.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::microversion::ApiVersion;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Candidate;
use crate::placement::Provider;
use crate::placement::allocation_candidates as candidates;
use crate::placement::query::{self, exist};
use crate::placement::routes::Call;
use crate::placement::tree::Tree;

const SINCE: u16 = 10;
const BY_PROVIDER: u16 = 12;
const SHOWS_TRAITS: u16 = 17;
const SHOWS_ALL: u16 = 27;
const TREES: u16 = 29;
const MAPPINGS: u16 = 34;

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/allocation_candidates").route(web::get().to(list)));
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let query = candidates::parse(&query::pairs(&call.request)?, call.version)?;
    let traits: Vec<_> = query.groups.values().map(|group| &group.traits).chain([&query.root]).collect();
    exist(&call.service, &traits, query.groups.values().flat_map(|group| group.resources.keys()).collect()).await?;
    let tree = call.tree().await?;
    let mut candidates = candidates::candidates(&tree, &query);
    if !call.version.at_least(TREES) {
        candidates.retain(|one| takes_no_trees(one, &tree));
    }
    let classes: BTreeSet<&String> = query.groups.values().flat_map(|group| group.resources.keys()).collect();
    let providers: BTreeSet<Uuid> = match call.version.at_least(TREES) {
        // Every provider of a tree that takes part.
        true => {
            let roots: BTreeSet<Uuid> = candidates.iter().flat_map(|one| one.providers()).map(|provider| tree.root(provider)).collect();
            tree.providers.iter().map(|provider| provider.uuid).filter(|uuid| roots.contains(&tree.root(*uuid))).collect()
        }
        false => candidates.iter().flat_map(|one| one.providers()).collect(),
    };
    let requests: Vec<Value> = candidates.iter().map(|one| allocation_request(one, call.version)).collect();
    let mut summaries = Map::new();
    for provider in providers.iter().filter_map(|uuid| tree.provider(*uuid)) {
        let mut value = summary(provider, &classes, call.version);
        if call.version.at_least(TREES) {
            value["parent_provider_uuid"] = json!(tree.parent(provider.uuid));
            value["root_provider_uuid"] = json!(tree.root(provider.uuid));
        }
        summaries.insert(provider.uuid.to_string(), value);
    }
    Ok(HttpResponse::Ok().json(json!({"allocation_requests": requests, "provider_summaries": summaries})))
}

/// True if each provider is of another tree: clients before 1.29 know of no others.
fn takes_no_trees(candidate: &Candidate, tree: &Tree) -> bool {
    let providers: BTreeSet<Uuid> = candidate.providers().collect();
    let roots: BTreeSet<Uuid> = providers.iter().map(|provider| tree.root(*provider)).collect();
    roots.len() == providers.len()
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

/// Describes a provider that takes part: before 1.27 with the classes that are asked for, from there on with all.
fn summary(provider: &Provider, classes: &BTreeSet<&String>, version: ApiVersion) -> Value {
    let used = |class: &str| provider.usages.get(class).copied().unwrap_or(0);
    let resources: Map<String, Value> = provider
        .inventories
        .iter()
        .filter(|(class, _)| version.at_least(SHOWS_ALL) || classes.contains(class))
        .map(|(class, inventory)| (class.clone(), json!({"capacity": inventory.capacity(), "used": used(class)})))
        .collect();
    let mut value = json!({"resources": resources});
    if version.at_least(SHOWS_TRAITS) {
        value["traits"] = json!(provider.traits);
    }
    value
}
