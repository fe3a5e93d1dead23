//! Tags of projects.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_domain::reason;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::Project;
use crate::identity::rights::{Reach, manages, reads};
use crate::identity::routes::{Call, collection, failed, link, not_found};
use crate::request_bodies::{RequestBody, bodies};
use crate::resource::Query;

pub fn configure(cfg: &mut web::ServiceConfig) {
    let all = web::resource("/projects/{id}/tags").route(web::get().to(list)).route(web::put().to(replace));
    cfg.service(all.route(web::delete().to(clear)));
    let one = web::resource("/projects/{id}/tags/{tag}").route(web::get().to(check)).route(web::head().to(check));
    cfg.service(one.route(web::put().to(add)).route(web::delete().to(remove)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! { "identity PUT /projects/{}/tags" => Body };

#[derive(Deserialize, JsonSchema)]
struct Body {
    tags: Vec<String>,
}

/// True if the query's filters by tags admit a project with these.
pub(in crate::identity) fn match_query(tags: &[String], query: &Query) -> bool {
    let has = |tag: &str| tags.iter().any(|held| held == tag);
    let fits = |name: &str, judge: &dyn Fn(&str) -> bool| query.get(name).is_none_or(|list| judge(list));
    fits("tags", &|list| list.split(',').all(has))
        && fits("tags-any", &|list| list.split(',').any(has))
        && fits("not-tags", &|list| !list.split(',').all(has))
        && fits("not-tags-any", &|list| !list.split(',').any(has))
}

async fn list(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let project = readable(&call, "identity:list_project_tags", &id).await?;
    Ok(HttpResponse::Ok().json(render(&call.request, &id, &project.tags)))
}

async fn check(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let project = readable(&call, "identity:get_project_tag", &path.0).await?;
    if project.tags.contains(&path.1) { Ok(HttpResponse::NoContent().finish()) } else { Err(not_found("project tag", &path.1)) }
}

async fn replace(call: Call, id: web::Path<String>, Json(Body { tags }): Json<Body>) -> Result<HttpResponse, ApiError> {
    let tags = retag(&call, "identity:update_project_tags", &id, move |_| Ok(tags)).await?;
    Ok(HttpResponse::Ok().json(render(&call.request, &id, &tags)))
}

async fn clear(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    retag(&call, "identity:delete_project_tags", &id, |_| Ok(Vec::new())).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn add(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, tag) = path.into_inner();
    let own = format!("projects/{id}/tags/{tag}");
    let added = move |mut tags: Vec<String>| {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        Ok(tags)
    };
    retag(&call, "identity:create_project_tag", &id, added).await?;
    let location = link(&call.request, &own)["self"].as_str().unwrap_or_default().to_owned();
    Ok(HttpResponse::Created().insert_header(("Location", location)).finish())
}

async fn remove(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, tag) = path.into_inner();
    let removed = move |mut tags: Vec<String>| match tags.iter().position(|held| *held == tag) {
        Some(index) => {
            tags.remove(index);
            Ok(tags)
        }
        None => Err(ServiceError::NotFound(reason!("Could not find project tag: {tag}."))),
    };
    retag(&call, "identity:delete_project_tag", &id, removed).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn readable(call: &Call, action: &str, id: &str) -> Result<Project, ApiError> {
    let reach = if call.caller.0.project_id == id { Reach::Everywhere } else { reads(&call.caller) };
    reach.admit(action, call.service.project(id).await)
}

async fn retag<F>(call: &Call, action: &str, id: &str, change: F) -> Result<Vec<String>, ApiError>
where
    F: FnOnce(Vec<String>) -> Result<Vec<String>, ServiceError> + Send + 'static,
{
    manages(&call.caller).admit(action, call.service.project(id).await)?;
    call.service.retag_project(id, change).await.map_err(failed)
}

fn render(request: &HttpRequest, id: &str, tags: &[String]) -> Value {
    let mut body = collection(request, "tags", tags.iter().map(|tag| json!(tag)).collect());
    body["links"]["self"] = link(request, &format!("projects/{id}/tags"))["self"].clone();
    body
}
