//! Role assignments.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{collection, failed, is_set, not_found, reads_domain, reads_system, require, require_admin, roles};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::services::ServiceError;
use crate::services::identity::{Assignment, EmbeddedIdentity, Target};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let places = ["/{place:projects|domains}/{target}", "/{place:system}"];
    for place in places {
        let one = web::resource(format!("{place}/users/{{user}}/roles/{{role}}")).route(web::put().to(grant));
        cfg.service(one.route(web::head().to(check)).route(web::get().to(check)).route(web::delete().to(revoke)));
        cfg.service(web::resource(format!("{place}/users/{{user}}/roles")).route(web::get().to(list_roles)));
    }
    cfg.service(web::resource("/role_assignments").route(web::get().to(list)));
}

async fn grant(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_grant", &caller)?;
    identity.grant(assignment(&request)?).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller) -> Result<HttpResponse, ApiError> {
    require("identity:check_grant", reads_grants(&request, &caller))?;
    let assignment = assignment(&request)?;
    let role = assignment.role_id.clone();
    match identity.is_granted(assignment).await.map_err(failed)? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(not_found("role assignment with role", &role)),
    }
}

async fn revoke(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller) -> Result<HttpResponse, ApiError> {
    require_admin("identity:revoke_grant", &caller)?;
    identity.revoke(assignment(&request)?).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list_roles(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller) -> Result<HttpResponse, ApiError> {
    require("identity:list_grants", reads_grants(&request, &caller))?;
    let (user, target) = (request.match_info().query("user"), target(&request)?);
    let held = identity.roles_of(user, target, false).await.map_err(failed)?;
    let held = held.iter().map(|role| roles::render(&request, role)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "roles", held)))
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_role_assignments", reads_domain(&caller))?;
    let mut known = identity.assignments().await.map_err(failed)?;
    // A reader of the domain sees only assignments in the domain.
    known.retain(|one| one.target != Target::System || reads_system(&caller));
    if is_set(&query, "effective") {
        known = effective(&identity, known).await.map_err(failed)?;
    }
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    known.retain(|one| {
        let (project, domain, system) = match &one.target {
            Target::Project(id) => (id.as_str(), "", ""),
            Target::Domain => ("", "default", ""),
            Target::System => ("", "", "all"),
        };
        let scoped = is("scope.project.id", project) && is("scope.domain.id", domain) && is("scope.system", system);
        scoped && is("user.id", &one.user_id) && is("role.id", &one.role_id) && !query.contains_key("group.id")
    });
    let names = if is_set(&query, "include_names") { names(&identity).await.map_err(failed)? } else { BTreeMap::new() };
    let known = known.iter().map(|one| render(&request, one, &names)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "role_assignments", known)))
}

/// Returns each assignment together with the assignments that its role implies.
async fn effective(identity: &EmbeddedIdentity, known: Vec<Assignment>) -> Result<Vec<Assignment>, ServiceError> {
    let holders: BTreeMap<(String, String), Target> =
        known.into_iter().map(|one| ((one.user_id, one.target.as_text()), one.target)).collect();
    let mut all = Vec::new();
    for ((user_id, _), target) in holders {
        for role in identity.roles_of(&user_id, target.clone(), true).await? {
            all.push(Assignment { user_id: user_id.clone(), target: target.clone(), role_id: role.id });
        }
    }
    Ok(all)
}

/// Returns the names for all ids.
async fn names(identity: &EmbeddedIdentity) -> Result<BTreeMap<String, String>, ServiceError> {
    let projects = identity.projects().await?.into_iter().map(|project| (project.id, project.name));
    let users = identity.users().await?.into_iter().map(|user| (user.id, user.name));
    let roles = identity.roles().await?.into_iter().map(|role| (role.id, role.name));
    Ok(projects.chain(users).chain(roles).collect())
}

/// True if the caller may read the grants of the path. Grants on the system are not in the domain.
fn reads_grants(request: &HttpRequest, caller: &Caller) -> bool {
    match request.match_info().query("place") {
        "system" => reads_system(caller),
        _ => reads_domain(caller),
    }
}

fn target(request: &HttpRequest) -> Result<Target, ApiError> {
    let id = request.match_info().query("target");
    match (request.match_info().query("place"), id) {
        ("projects", id) => Ok(Target::Project(id.to_owned())),
        ("domains", "default") => Ok(Target::Domain),
        ("domains", other) => Err(not_found("domain", other)),
        _ => Ok(Target::System),
    }
}

fn assignment(request: &HttpRequest) -> Result<Assignment, ApiError> {
    let part = |name: &str| request.match_info().query(name).to_owned();
    Ok(Assignment { user_id: part("user"), target: target(request)?, role_id: part("role") })
}

fn render(request: &HttpRequest, one: &Assignment, names: &BTreeMap<String, String>) -> Value {
    let domain = json!({"id": "default", "name": "Default"});
    let thing = |id: &str, in_domain: bool| match names.get(id) {
        Some(name) if in_domain => json!({"id": id, "name": name, "domain": domain}),
        Some(name) => json!({"id": id, "name": name}),
        None => json!({"id": id}),
    };
    let (scope, place) = match &one.target {
        Target::Project(id) => (json!({"project": thing(id, true)}), format!("projects/{id}")),
        Target::Domain if names.is_empty() => (json!({"domain": {"id": "default"}}), "domains/default".to_owned()),
        Target::Domain => (json!({"domain": domain}), "domains/default".to_owned()),
        Target::System => (json!({"system": {"all": true}}), "system".to_owned()),
    };
    let link = format!("{}/identity/v3/{place}/users/{}/roles/{}", base_url::of(request), one.user_id, one.role_id);
    json!({"role": thing(&one.role_id, false), "user": thing(&one.user_id, true), "scope": scope, "links": {"assignment": link}})
}
