//! The API's view of projects, and who may read and change them.

use cellshift_store::columns::StringList;
use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tags;
use crate::ServiceError;
use crate::identity::rights::{Reach, manages, readable, reads};
use crate::identity::routes::{Call, bad_request, failed, home, is_flag, is_set, link, stays_in_domain, without_options};
use crate::identity::{EmbeddedIdentity, NewProject, Project, ProjectChanges};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::{Editable, Query, Shown, is};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /projects" => Body,
    "identity PATCH /projects/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
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

impl Shown for Project {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "project";
    const COLLECTION: &'static str = "projects";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Project>, ApiError> {
        let admits = |project: &Project| {
            is(query, "name", &project.name)
                && is(query, "domain_id", &project.domain_id)
                && is_flag(query, "enabled", project.enabled)
                && is(query, "parent_id", &project.domain_id)
                && !is_set(query, "is_domain")
                && tags::match_query(&project.tags, query)
        };
        readable(call, "identity:list_projects", call.service.projects(), admits).await
    }

    async fn show(call: &Call, id: &str) -> Result<Project, ApiError> {
        let reach = if call.caller.0.project_id == id { Reach::Everywhere } else { reads(&call.caller) };
        reach.admit("identity:get_project", call.service.project(id).await)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        manages(&call.caller).admit("identity:delete_project", call.service.project(id).await)?;
        call.service.delete_project(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "enabled": self.enabled,
            "domain_id": self.domain_id,
            "parent_id": self.domain_id,
            "is_domain": false,
            "tags": self.tags,
            "options": {},
            "links": link(&call.request, &format!("projects/{}", self.id)),
        })
    }
}

impl Editable for Project {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { project }: Body) -> Result<Project, ApiError> {
        let domain_id = project.domain_id.unwrap_or_else(|| home(&call.caller));
        manages(&call.caller).require_in("identity:create_project", &domain_id)?;
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
        call.service.create_project(new).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { project }: Body) -> Result<Project, ApiError> {
        let stored = manages(&call.caller).admit("identity:update_project", call.service.project(id).await)?;
        stays_in_domain(project.domain_id.as_deref(), &stored.domain_id)?;
        if project.is_domain == Some(true) {
            return Err(bad_request("Update of `is_domain` is not allowed."));
        }
        if project.parent_id.is_some_and(|parent| parent != stored.domain_id) {
            return Err(failed(ServiceError::Forbidden("Update of `parent_id` is not allowed.".into())));
        }
        let tags = project.tags.map(StringList::from);
        let changes = ProjectChanges { name: project.name, description: project.description, enabled: project.enabled, tags };
        call.service.update_project(id, changes).await.map_err(failed)
    }
}
