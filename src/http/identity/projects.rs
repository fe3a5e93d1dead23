//! Projects.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{bad_request, collection, failed, link, not_found, not_null, reads_domain, require, require_admin};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::services::identity::{EmbeddedIdentity, Project, ProjectChanges};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/projects").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/projects/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
}

#[derive(Deserialize)]
struct Body {
    project: Fields,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
    domain_id: Option<String>,
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_projects", reads_domain(&caller))?;
    let mut projects = identity.projects().await.map_err(failed)?;
    projects.retain(|project| {
        query.get("name").is_none_or(|name| *name == project.name)
            && query.get("domain_id").is_none_or(|domain| domain == "default")
            && query.get("enabled").is_none_or(|enabled| enabled.eq_ignore_ascii_case("true") == project.enabled)
            && query.get("parent_id").is_none_or(|parent| parent == "default")
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
    require("identity:get_project", caller.0.project_id == *id || reads_domain(&caller))?;
    let project = identity.project(&id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"project": render(&request, &project)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { project }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_project", &caller)?;
    in_the_domain(project.domain_id.as_deref())?;
    let name = project.name.ok_or_else(|| bad_request("A project needs a name."))?;
    let description = project.description.unwrap_or_default();
    let created = identity.create_project(&name, &description, project.enabled.unwrap_or(true)).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"project": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { project }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_project", &caller)?;
    in_the_domain(project.domain_id.as_deref())?;
    let changes = ProjectChanges { name: project.name, description: project.description, enabled: project.enabled };
    let updated = identity.update_project(&id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"project": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_project", &caller)?;
    identity.delete_project(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Refuses any domain but the only one.
pub(super) fn in_the_domain(domain_id: Option<&str>) -> Result<(), ApiError> {
    match domain_id {
        None | Some("default") => Ok(()),
        Some(other) => Err(not_found("domain", other)),
    }
}

pub(super) fn render(request: &HttpRequest, project: &Project) -> Value {
    json!({
        "id": project.id,
        "name": project.name,
        "description": project.description,
        "enabled": project.enabled,
        "domain_id": "default",
        "parent_id": "default",
        "is_domain": false,
        "tags": [],
        "options": {},
        "links": link(request, &format!("projects/{}", project.id)),
    })
}
