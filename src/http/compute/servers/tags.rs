//! `/servers/{id}/tags`, from 2.26.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ComputeApi;
use super::metadata::check_state;
use super::rules::{MAX_TAGS, tag};
use crate::domain::context::RequestContext;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, empty, no_such_resource, not_found, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::Schema;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(
            web::resource("/servers/{id}/tags").route(web::get().to(index)).route(web::put().to(replace)).route(web::delete().to(clear)),
        )
        .service(
            web::resource("/servers/{id}/tags/{tag}").route(web::get().to(show)).route(web::put().to(add)).route(web::delete().to(remove)),
        );
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[("PUT /servers/{}/tags", &REPLACE.schema)];

static REPLACE: Body<Tags> = Body::within("tags", ALWAYS);

rules! {
    /// The tags of a server.
    pub TagList = json!({"type": "array", "items": tag(), "maxItems": MAX_TAGS});
}

#[derive(Deserialize, JsonSchema)]
struct Tags(#[schemars(with = "TagList")] Vec<String>);

fn since_26(version: ApiVersion) -> Result<(), ApiError> {
    if version.at_least(26) { Ok(()) } else { Err(no_such_resource()) }
}

async fn tags_of(api: &ComputeApi, caller: &RequestContext, id: &str) -> Result<Vec<String>, ApiError> {
    Ok(api.load(caller, id, "os_compute_api:os-server-tags:index").await?.tags.clone())
}

async fn index(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    since_26(version)?;
    ok(&json!({"tags": tags_of(&api, &caller, &id).await?}))
}

async fn replace(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>, body: Document) -> Answer {
    since_26(version)?;
    let Tags(tags) = REPLACE.read(version, &body).await?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-server-tags:update_all").await?;
    check_state(&located.instance, "update_tags")?;
    api.registry.replace_tags(&located, tags).await?;
    ok(&json!({"tags": tags_of(&api, &caller, &id).await?}))
}

async fn clear(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    since_26(version)?;
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-server-tags:delete_all").await?;
    check_state(&located.instance, "delete_tags")?;
    api.registry.replace_tags(&located, Vec::new()).await?;
    empty(StatusCode::NO_CONTENT)
}

async fn show(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    since_26(version)?;
    let (id, tag) = path.into_inner();
    api.locate_for(&caller, &id, "os_compute_api:os-server-tags:show").await?;
    match tags_of(&api, &caller, &id).await?.contains(&tag) {
        true => empty(StatusCode::NO_CONTENT),
        false => Err(no_such_tag(&id, &tag)),
    }
}

async fn add(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    since_26(version)?;
    let (id, tag) = path.into_inner();
    if tag.is_empty() || tag.contains(',') || tag.contains('/') || tag.chars().count() > 60 {
        return Err(bad_request(format!(
            "Tag '{tag}' is invalid. It must be a non empty string without characters '/' and ',', of at most 60 characters."
        )));
    }
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-server-tags:update").await?;
    let present = tags_of(&api, &caller, &id).await?;
    if present.contains(&tag) {
        return empty(StatusCode::NO_CONTENT);
    }
    if present.len() >= MAX_TAGS {
        return Err(bad_request(format!("The number of tags exceeded the per-server limit {MAX_TAGS}")));
    }
    check_state(&located.instance, "update_tag")?;
    api.registry.add_tag(&located, tag.clone()).await?;
    let location = format!("{}/compute/v2.1/servers/{id}/tags/{}", base_url::of(&request), base_url::escape(&tag));
    Ok(HttpResponse::Created().insert_header(("Location", location)).finish())
}

async fn remove(Call { api, caller: Caller(caller), version, .. }: Call<ComputeApi>, path: web::Path<(String, String)>) -> Answer {
    since_26(version)?;
    let (id, tag) = path.into_inner();
    let located = api.locate_unlocked(&caller, &id, "os_compute_api:os-server-tags:delete").await?;
    if !tags_of(&api, &caller, &id).await?.contains(&tag) {
        return Err(no_such_tag(&id, &tag));
    }
    check_state(&located.instance, "delete_tag")?;
    api.registry.delete_tag(&located, tag).await?;
    empty(StatusCode::NO_CONTENT)
}

fn no_such_tag(id: &str, tag: &str) -> ApiError {
    not_found(format!("Server {id} has no tag '{tag}'"))
}
