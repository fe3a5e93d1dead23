//! Projects.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_store::columns::StringList;
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ServiceError;
use crate::identity::projects::tags as project_tags;
use crate::identity::rights::{Reach, manages, reads};
use crate::identity::routes::{
    bad_request, collection, failed, home, is_set, is_wanted_flag, link, not_null, stays_in_domain, without_options,
};
use crate::identity::{EmbeddedIdentity, NewProject, Project, ProjectChanges};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/projects").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/projects/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /projects", of_type::<Body>), ("identity PATCH /projects/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
    project: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
    domain_id: Option<String>,
    parent_id: Option<String>,
    is_domain: Option<bool>,
    #[serde(default, deserialize_with = "not_null")]
    tags: Option<Vec<String>>,
    #[serde(default, rename = "options", deserialize_with = "without_options")]
    #[schemars(with = "Option<Map<String, Value>>")]
    _options: (),
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let reach = reads(&caller);
    reach.require("identity:list_projects")?;
    let mut projects = identity.projects().await.map_err(failed)?;
    projects.retain(|project| {
        query.get("name").is_none_or(|name| *name == project.name)
            && query.get("domain_id").is_none_or(|domain| *domain == project.domain_id)
            && is_wanted_flag(&query, "enabled", project.enabled)
            && query.get("parent_id").is_none_or(|parent| *parent == project.domain_id)
            && !is_set(&query, "is_domain")
            && project_tags::are_wanted(&project.tags, &query)
            && reach.covers(&project.domain_id)
    });
    let projects = projects.iter().map(|project| render(&request, project)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "projects", projects)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let reach = if caller.0.project_id == *id { Reach::Everywhere } else { reads(&caller) };
    let project = reach.admit("identity:get_project", identity.project(&id).await)?;
    Ok(HttpResponse::Ok().json(json!({"project": render(&request, &project)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { project }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let domain_id = project.domain_id.unwrap_or_else(|| home(&caller));
    manages(&caller).require_in("identity:create_project", &domain_id)?;
    if project.is_domain == Some(true) {
        return Err(bad_request("Invalid input for field 'is_domain': a domain is made with POST /v3/domains."));
    }
    if project.parent_id.is_some_and(|parent| parent != domain_id) {
        let why = "Max hierarchy depth reached: the parent of a project is its domain.";
        return Err(failed(ServiceError::Forbidden(why.into())));
    }
    let new = NewProject {
        domain_id,
        name: project.name.ok_or_else(|| bad_request("A project needs a name."))?,
        description: project.description.unwrap_or_default(),
        enabled: project.enabled.unwrap_or(true),
        tags: project.tags.unwrap_or_default(),
    };
    let created = identity.create_project(new).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"project": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { project }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let known = manages(&caller).admit("identity:update_project", identity.project(&id).await)?;
    stays_in_domain(project.domain_id.as_deref(), &known.domain_id)?;
    if project.is_domain == Some(true) {
        return Err(bad_request("Update of `is_domain` is not allowed."));
    }
    if project.parent_id.is_some_and(|parent| parent != known.domain_id) {
        return Err(failed(ServiceError::Forbidden("Update of `parent_id` is not allowed.".into())));
    }
    let tags = project.tags.map(StringList::from);
    let changes = ProjectChanges { name: project.name, description: project.description, enabled: project.enabled, tags };
    let updated = identity.update_project(&id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"project": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    manages(&caller).admit("identity:delete_project", identity.project(&id).await)?;
    identity.delete_project(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

pub(in crate::identity) fn render(request: &HttpRequest, project: &Project) -> Value {
    json!({
        "id": project.id,
        "name": project.name,
        "description": project.description,
        "enabled": project.enabled,
        "domain_id": project.domain_id,
        "parent_id": project.domain_id,
        "is_domain": false,
        "tags": project.tags,
        "options": {},
        "links": link(request, &format!("projects/{}", project.id)),
    })
}
