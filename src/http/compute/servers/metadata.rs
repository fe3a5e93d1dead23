//! `/servers/{id}/metadata`: users' metadata of their servers.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::{MetadataMap, metadata_map};
use super::{ComputeApi, access, quota};
use crate::cell_registry::Located;
use crate::domain::context::RequestContext;
use crate::domain::instance::Instance;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, not_found, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::quota_usage::Holder;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::schema::Schema;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/servers/{id}/metadata").route(web::get().to(index)).route(web::post().to(create)).route(web::put().to(replace)),
        )
        .service(
            web::resource("/servers/{id}/metadata/{key}")
                .route(web::get().to(show))
                .route(web::put().to(put))
                .route(web::delete().to(delete)),
        );
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[("POST /servers/{}/metadata", &ALL.schema), ("PUT /servers/{}/metadata/{}", &ONE.schema)];

/// Adds to all metadata, or replaces them.
pub static ALL: Body<Metadata> = Body::within("metadata", ALWAYS);
/// Sets one key.
pub static ONE: Body<Item> = Body::within("meta", ALWAYS);

rules! {
    /// A single key with its value.
    OneItem = one_item();
}

fn one_item() -> Value {
    let mut item = metadata_map();
    item["minProperties"] = json!(1);
    item["maxProperties"] = json!(1);
    item
}

/// Metadata in a request.
#[derive(Deserialize, JsonSchema)]
pub struct Metadata(#[schemars(with = "MetadataMap")] pub BTreeMap<String, String>);

/// A key of metadata with its value in a request.
#[derive(Deserialize, JsonSchema)]
pub struct Item(#[schemars(with = "OneItem")] pub BTreeMap<String, String>);

async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let server = api.load(&caller, &id, "os_compute_api:server-metadata:index").await?;
    ok(&json!({"metadata": server.metadata}))
}

async fn create(
    Call { api, catalog, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    let Metadata(metadata) = ALL.read(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:create").await?;
    check_more(&api, &catalog, &caller, &located, &metadata).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.merge_metadata(&located, metadata).await?;
    let server = api.load(&caller, &id, "os_compute_api:server-metadata:create").await?;
    ok(&json!({"metadata": server.metadata}))
}

async fn replace(
    Call { api, catalog, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    let Metadata(metadata) = ALL.read(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:update_all").await?;
    quota::check_metadata(&catalog, Holder::of_writer(&caller, &located.instance), &metadata).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.replace_metadata(&located, metadata.clone()).await?;
    ok(&json!({"metadata": metadata}))
}

async fn show(api: web::Data<ComputeApi>, Caller(caller): Caller, path: web::Path<(String, String)>) -> Answer {
    let (id, key) = path.into_inner();
    let server = api.load(&caller, &id, "os_compute_api:server-metadata:show").await?;
    match server.metadata.get(&key) {
        Some(value) => ok(&json!({"meta": {key: value}})),
        None => Err(not_found("Metadata item was not found")),
    }
}

async fn put(
    Call { api, catalog, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    let (id, key) = path.into_inner();
    let Item(item) = ONE.read(version, &body).await?;
    if !item.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch"));
    }
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:update").await?;
    check_more(&api, &catalog, &caller, &located, &item).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.merge_metadata(&located, item.clone()).await?;
    ok(&json!({"meta": item}))
}

async fn delete(api: web::Data<ComputeApi>, Caller(caller): Caller, path: web::Path<(String, String)>) -> Answer {
    let (id, key) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:delete").await?;
    if !api.registry.server(located.instance.uuid).await?.metadata.contains_key(&key) {
        return Err(not_found("Metadata item was not found"));
    }
    check_state(&located.instance, "delete metadata")?;
    api.registry.delete_metadata(&located, key).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Answers 403 if the addition would exceed the limit of the server's metadata.
async fn check_more(
    api: &ComputeApi,
    catalog: &Catalog,
    caller: &RequestContext,
    located: &Located,
    addition: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let mut all = api.registry.server(located.instance.uuid).await?.metadata.clone();
    all.extend(addition.clone());
    quota::check_metadata(catalog, Holder::of_writer(caller, &located.instance), &all).await
}

/// Refuses a change of metadata or tags while the server has a task, or is in VERIFY_RESIZE or ERROR.
pub(super) fn check_state(instance: &Instance, action: &str) -> Result<(), ApiError> {
    match instance.vm_state {
        VmState::Active | VmState::Paused | VmState::Suspended | VmState::Stopped => access::require_no_task(instance, action),
        other => Err(access::wrong_state(instance, action, "vm_state", other.as_str())),
    }
}
