//! `/servers/{id}/metadata`: users' metadata of their servers.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use serde_json::json;

use super::create::request::strings;
use super::{ComputeApi, access, quota, schemas};
use crate::cell_registry::Located;
use crate::domain::context::RequestContext;
use crate::domain::instance::Instance;
use crate::domain::server::VmState;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, empty, not_found, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::quota_usage::Holder;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

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

async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let server = api.load(&caller, &id, "os_compute_api:server-metadata:index").await?;
    ok(&json!({"metadata": server.metadata}))
}

async fn create(
    api: web::Data<ComputeApi>,
    catalog: web::Data<Catalog>,
    Caller(caller): Caller,
    version: ApiVersion,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    schemas::METADATA.check(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:create").await?;
    let given = strings(&body["metadata"]);
    check_more(&api, &catalog, &caller, &located, &given).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.merge_metadata(&located, given).await?;
    let server = api.load(&caller, &id, "os_compute_api:server-metadata:create").await?;
    ok(&json!({"metadata": server.metadata}))
}

async fn replace(
    api: web::Data<ComputeApi>,
    catalog: web::Data<Catalog>,
    Caller(caller): Caller,
    version: ApiVersion,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    schemas::METADATA.check(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:update_all").await?;
    let given = strings(&body["metadata"]);
    quota::check_metadata(&catalog, Holder::of_writer(&caller, &located.instance), &given).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.replace_metadata(&located, given.clone()).await?;
    ok(&json!({"metadata": given}))
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
    api: web::Data<ComputeApi>,
    catalog: web::Data<Catalog>,
    Caller(caller): Caller,
    version: ApiVersion,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    let (id, key) = path.into_inner();
    schemas::META.check(version, &body).await?;
    let given = strings(&body["meta"]);
    if !given.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch"));
    }
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:server-metadata:update").await?;
    check_more(&api, &catalog, &caller, &located, &given).await?;
    check_state(&located.instance, "update metadata")?;
    api.registry.merge_metadata(&located, given.clone()).await?;
    ok(&json!({"meta": given}))
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
    given: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let mut all = api.registry.server(located.instance.uuid).await?.metadata.clone();
    all.extend(given.clone());
    quota::check_metadata(catalog, Holder::of_writer(caller, &located.instance), &all).await
}

/// Refuses a change of metadata or tags while the server has a task, or is in VERIFY_RESIZE or ERROR.
pub(super) fn check_state(instance: &Instance, action: &str) -> Result<(), ApiError> {
    match instance.vm_state {
        VmState::Active | VmState::Paused | VmState::Suspended | VmState::Stopped => access::require_no_task(instance, action),
        other => Err(access::wrong_state(instance, action, "vm_state", other.as_str())),
    }
}
