//! The projects that may use a private flavor.

use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::auth::{Caller, require_project};
use crate::http::compute::answer::{Answer, bad_request, conflict, not_found, ok};
use crate::http::compute::body::rules::rules;
use crate::http::compute::body::{ALWAYS, Body};
use crate::http::compute::catalog::Catalog;
use crate::http::compute::query::Query;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::services::identity::Authenticator;

pub(super) static ADD: Body<Access> = Body::within("addTenantAccess", ALWAYS);
pub(super) static REMOVE: Body<Access> = Body::within("removeTenantAccess", ALWAYS);

rules! {
    /// The id of a project.
    ProjectId = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-_]*$"});
}

/// A project's access to a flavor.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Access {
    #[serde(rename = "tenant")]
    #[schemars(with = "ProjectId")]
    project: String,
}

/// Answers `GET /flavors/{id}/os-flavor-access`.
pub async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-flavor-access")?;
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    if api.visible_flavor(&caller, &id).await?.flavor.is_public {
        return Err(not_found("Access list not available for public flavors."));
    }
    answer(&api, &id).await
}

/// Answers `POST /flavors/{id}/action`.
pub async fn action(
    caller: Caller,
    version: ApiVersion,
    api: web::Data<Catalog>,
    identity: web::Data<dyn Authenticator>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    if ADD.is_named_in(&body) {
        api.allow(&caller, "os_compute_api:os-flavor-access:add_tenant_access")?;
        let Access { project } = ADD.read(version, &body).await?;
        require_project(&**identity, &caller, ErrorForm::Compute, &project).await?;
        add(&api, version, &id, &project).await?;
    } else if REMOVE.is_named_in(&body) {
        api.allow(&caller, "os_compute_api:os-flavor-access:remove_tenant_access")?;
        let Access { project } = REMOVE.read(version, &body).await?;
        api.api.remove_flavor_access(&id, &project).await?;
    } else {
        return Err(bad_request("There is no such action."));
    }
    answer(&api, &id).await
}

async fn add(api: &Catalog, version: ApiVersion, id: &str, project: &str) -> Result<(), ApiError> {
    // Below 2.7 a public flavor is accepted without effect, because every project may use it anyway.
    if api.api.flavor(id).await?.flavor.is_public {
        return if version.at_least(7) { Err(conflict("Can not add access to a public flavor.")) } else { Ok(()) };
    }
    Ok(api.api.add_flavor_access(id, project).await?)
}

async fn answer(api: &Catalog, id: &str) -> Answer {
    let projects = api.api.flavor_access(id).await?;
    let access: Vec<Value> = projects.iter().map(|project| json!({"flavor_id": id, "tenant_id": project})).collect();
    ok(&json!({"flavor_access": access}))
}
