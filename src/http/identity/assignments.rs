//! Role assignments.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{bad_request, collection, failed, is_set, not_found, reads_domain, reads_system, require, require_admin, roles};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::services::ServiceError;
use crate::services::identity::{Actor, Assignment, EffectiveAssignment, EmbeddedIdentity, Target};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let places = ["/{place:projects|domains}/{target}", "/{place:system}"];
    for place in places {
        for actor in ["users/{user}", "groups/{group}"] {
            let one = web::resource(format!("{place}/{actor}/roles/{{role}}")).route(web::put().to(grant));
            cfg.service(one.route(web::head().to(check)).route(web::get().to(check)).route(web::delete().to(revoke)));
            cfg.service(web::resource(format!("{place}/{actor}/roles")).route(web::get().to(list_roles)));
        }
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
    let held = identity.granted(actor(&request), target(&request)?).await.map_err(failed)?;
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
    check_filters(&query)?;
    let mut known: Vec<Shown> = match is_set(&query, "effective") {
        true => identity.effective_assignments().await.map_err(failed)?.into_iter().map(Shown::from).collect(),
        false => identity.assignments().await.map_err(failed)?.into_iter().map(Shown::from).collect(),
    };
    // A reader of the domain sees only assignments in the domain.
    known.retain(|one| (one.target != Target::System || reads_system(&caller)) && is_wanted(one, &query));
    let names = if is_set(&query, "include_names") { names(&identity).await.map_err(failed)? } else { BTreeMap::new() };
    let known = known.iter().map(|one| render(&request, one, &names)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "role_assignments", known)))
}

/// A row of the list.
struct Shown {
    actor: Actor,
    target: Target,
    role_id: String,
    /// The group by which the user has the role.
    by_group: Option<String>,
}

impl From<Assignment> for Shown {
    fn from(one: Assignment) -> Shown {
        Shown { actor: one.actor, target: one.target, role_id: one.role_id, by_group: None }
    }
}

impl From<EffectiveAssignment> for Shown {
    fn from(one: EffectiveAssignment) -> Shown {
        Shown { actor: Actor::User(one.user_id), target: one.target, role_id: one.role_id, by_group: one.group_id }
    }
}

/// Answers 400 for filters that contradict each other.
fn check_filters(query: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let contradictions = [
        ("scope.domain.id", "scope.project.id", "Specify a domain or project, not both"),
        ("scope.domain.id", "scope.system", "Specify system or domain, not both"),
        ("scope.project.id", "scope.system", "Specify system or project, not both"),
        ("user.id", "group.id", "Specify a user or group, not both"),
    ];
    if let Some((_, _, why)) = contradictions.iter().find(|(one, other, _)| query.contains_key(*one) && query.contains_key(*other)) {
        return Err(bad_request(*why));
    }
    match is_set(query, "effective") && query.contains_key("group.id") {
        true => Err(bad_request("Combining effective and group filter will always result in an empty list.")),
        false => Ok(()),
    }
}

fn is_wanted(one: &Shown, query: &BTreeMap<String, String>) -> bool {
    let is = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let (project, domain, system) = match &one.target {
        Target::Project(id) => (id.as_str(), "", ""),
        Target::Domain => ("", "default", ""),
        Target::System => ("", "", "all"),
    };
    let (user, group) = match &one.actor {
        Actor::User(id) => (id.as_str(), ""),
        Actor::Group(id) => ("", id.as_str()),
    };
    let scoped = is("scope.project.id", project) && is("scope.domain.id", domain) && is("scope.system", system);
    scoped && is("user.id", user) && is("group.id", group) && is("role.id", &one.role_id)
}

/// Returns the names for all ids.
async fn names(identity: &EmbeddedIdentity) -> Result<BTreeMap<String, String>, ServiceError> {
    let projects = identity.projects().await?.into_iter().map(|project| (project.id, project.name));
    let users = identity.users().await?.into_iter().map(|user| (user.id, user.name));
    let roles = identity.roles().await?.into_iter().map(|role| (role.id, role.name));
    let groups = identity.groups().await?.into_iter().map(|group| (group.id, group.name));
    Ok(projects.chain(users).chain(roles).chain(groups).collect())
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

fn actor(request: &HttpRequest) -> Actor {
    match request.match_info().get("group") {
        Some(group) => Actor::Group(group.to_owned()),
        None => Actor::User(request.match_info().query("user").to_owned()),
    }
}

fn assignment(request: &HttpRequest) -> Result<Assignment, ApiError> {
    let role_id = request.match_info().query("role").to_owned();
    Ok(Assignment { actor: actor(request), target: target(request)?, role_id })
}

fn render(request: &HttpRequest, one: &Shown, names: &BTreeMap<String, String>) -> Value {
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
    let base = format!("{}/identity/v3", base_url::of(request));
    let (kind, id) = match &one.actor {
        Actor::User(id) => ("user", id),
        Actor::Group(id) => ("group", id),
    };
    let giver = one.by_group.as_ref().map_or_else(|| format!("{kind}s/{id}"), |group| format!("groups/{group}"));
    let mut links = json!({"assignment": format!("{base}/{place}/{giver}/roles/{}", one.role_id)});
    if let Some(group) = &one.by_group {
        links["membership"] = json!(format!("{base}/groups/{group}/users/{id}"));
    }
    json!({"role": thing(&one.role_id, false), kind: thing(id, true), "scope": scope, "links": links})
}
