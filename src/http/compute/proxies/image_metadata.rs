//! `/images/{id}/metadata`: the properties of an image, up to microversion 2.38.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web;
use serde_json::json;
use uuid::Uuid;

use super::Images;
use super::images::{failed, visible};
use crate::domain::context::RequestContext;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, no_such_resource, not_found, ok};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::servers::metadata::{ALL, Item, Metadata, ONE};
use crate::http::compute::servers::quota;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::roles;
use crate::services::proxies::{ImageProxy, PropertyChange};

/// The last microversion with this resource.
const LAST: u16 = 38;

pub(super) fn routes(config: &mut web::ServiceConfig) {
    let all =
        web::resource("/images/{id}/metadata").route(web::get().to(index)).route(web::post().to(create)).route(web::put().to(replace));
    let one =
        web::resource("/images/{id}/metadata/{key}").route(web::get().to(show)).route(web::put().to(put)).route(web::delete().to(delete));
    config.service(all.wrap(from_fn(roles::by_method))).service(one.wrap(from_fn(roles::by_method)));
}

fn is_there(version: ApiVersion) -> Result<(), ApiError> {
    if version.at_most(LAST) { Ok(()) } else { Err(no_such_resource()) }
}

async fn index(Call { api: images, caller, version, .. }: Call<dyn ImageProxy>, id: web::Path<String>) -> Answer {
    is_there(version)?;
    ok(&json!({"metadata": visible(&images, &caller.0, &id).await?.properties}))
}

async fn show(Call { api: images, caller, version, .. }: Call<dyn ImageProxy>, path: web::Path<(String, String)>) -> Answer {
    is_there(version)?;
    let (id, key) = path.into_inner();
    match visible(&images, &caller.0, &id).await?.properties.get(&key) {
        Some(value) => ok(&json!({"meta": {key: value}})),
        None => Err(not_found("Metadata item was not found")),
    }
}

async fn create(Call { api: images, catalog, caller, version, .. }: Call<dyn ImageProxy>, id: web::Path<String>, body: Document) -> Answer {
    is_there(version)?;
    let Metadata(metadata) = ALL.read(version, &body).await?;
    let all = merge(&images, &catalog, &caller.0, &id, metadata).await?;
    ok(&json!({"metadata": all}))
}

async fn replace(
    Call { api: images, catalog, caller, version, .. }: Call<dyn ImageProxy>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    is_there(version)?;
    let Metadata(metadata) = ALL.read(version, &body).await?;
    quota::check_metadata(&catalog, (&caller.0).into(), &metadata).await?;
    let id = visible(&images, &caller.0, &id).await?.id;
    ok(&json!({"metadata": change(&images, &caller.0, id, PropertyChange::Replace(metadata)).await?}))
}

async fn put(
    Call { api: images, catalog, caller, version, .. }: Call<dyn ImageProxy>,
    path: web::Path<(String, String)>,
    body: Document,
) -> Answer {
    is_there(version)?;
    let (id, key) = path.into_inner();
    let Item(item) = ONE.read(version, &body).await?;
    if !item.contains_key(&key) {
        return Err(bad_request("Request body and URI mismatch"));
    }
    merge(&images, &catalog, &caller.0, &id, item.clone()).await?;
    ok(&json!({"meta": item}))
}

async fn delete(Call { api: images, caller, version, .. }: Call<dyn ImageProxy>, path: web::Path<(String, String)>) -> Answer {
    is_there(version)?;
    let (id, key) = path.into_inner();
    let image = visible(&images, &caller.0, &id).await?;
    if !image.properties.contains_key(&key) {
        return Err(not_found("Invalid metadata key"));
    }
    change(&images, &caller.0, image.id, PropertyChange::Remove(key)).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Adds these properties or replaces their values. 403 if the image would have more than the project's limit of metadata.
async fn merge(
    images: &Images,
    catalog: &Catalog,
    caller: &RequestContext,
    id: &str,
    metadata: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let image = visible(images, caller, id).await?;
    let mut all = image.properties;
    all.extend(metadata.clone());
    quota::check_metadata(catalog, caller.into(), &all).await?;
    change(images, caller, image.id, PropertyChange::Merge(metadata)).await
}

/// Changes an image's properties, and returns them. 403 if the caller may only see the image.
async fn change(images: &Images, caller: &RequestContext, id: Uuid, change: PropertyChange) -> Result<BTreeMap<String, String>, ApiError> {
    Ok(images.change_properties(caller, id, change).await.map_err(failed)?.properties)
}
