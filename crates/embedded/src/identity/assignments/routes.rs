//! Role assignments.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::rights::{MANAGED_ROLES, Reach, manages, reads, require};
use crate::identity::routes::{Call, bad_request, collection, failed, is_set, listed, not_found};
use crate::identity::{Actor, Assignment, EffectiveAssignment, EmbeddedIdentity, Target};
use crate::resource::{Query, is};

pub fn configure(cfg: &mut web::ServiceConfig) {
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

async fn grant(call: Call) -> Result<HttpResponse, ApiError> {
    let assignment = assignment(&call.request);
    may_give(&call, "identity:create_grant", &assignment).await?;
    call.service.grant(assignment).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check(call: Call) -> Result<HttpResponse, ApiError> {
    let assignment = assignment(&call.request);
    require_within(&call, &reads(&call.caller), "identity:check_grant", &assignment.actor, &assignment.target).await?;
    let role = assignment.role_id.clone();
    match call.service.is_granted(assignment).await.map_err(failed)? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(not_found("role assignment with role", &role)),
    }
}

async fn revoke(call: Call) -> Result<HttpResponse, ApiError> {
    let assignment = assignment(&call.request);
    may_give(&call, "identity:revoke_grant", &assignment).await?;
    call.service.revoke(assignment).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list_roles(call: Call) -> Result<HttpResponse, ApiError> {
    let (actor, target) = (actor(&call.request), target(&call.request));
    require_within(&call, &reads(&call.caller), "identity:list_grants", &actor, &target).await?;
    let held = call.service.granted(actor, target).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(listed(&call, &held)))
}

async fn list(call: Call, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    let reach = reads(&call.caller);
    reach.require("identity:list_role_assignments")?;
    check_filters(&query)?;
    let mut assignments: Vec<Shown> = match is_set(&query, "effective") {
        true => call.service.effective_assignments().await.map_err(failed)?.into_iter().map(Shown::from).collect(),
        false => call.service.assignments().await.map_err(failed)?.into_iter().map(Shown::from).collect(),
    };
    let owners = owners(&call.service, &reach).await.map_err(failed)?;
    assignments.retain(|one| is_visible(one, &reach, &owners) && matches(one, &query));
    let names = if is_set(&query, "include_names") { names(&call.service).await.map_err(failed)? } else { Names::default() };
    let assignments = assignments.iter().map(|one| render(&call.request, one, &names)).collect();
    Ok(HttpResponse::Ok().json(collection(&call.request, "role_assignments", assignments)))
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
fn check_filters(query: &Query) -> Result<(), ApiError> {
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

fn matches(one: &Shown, query: &Query) -> bool {
    let is = |parameter: &str, value: &str| is(query, parameter, value);
    let (project, domain, system) = match &one.target {
        Target::Project(id) => (id.as_str(), "", ""),
        Target::Domain(id) => ("", id.as_str(), ""),
        Target::System => ("", "", "all"),
    };
    let (user, group) = match &one.actor {
        Actor::User(id) => (id.as_str(), ""),
        Actor::Group(id) => ("", id.as_str()),
    };
    let scoped = is("scope.project.id", project) && is("scope.domain.id", domain) && is("scope.system", system);
    scoped && is("user.id", user) && is("group.id", group) && is("role.id", &one.role_id)
}

/// Returns the domain of each project, if the caller sees one domain only.
async fn owners(identity: &EmbeddedIdentity, reach: &Reach) -> Result<BTreeMap<String, String>, ServiceError> {
    match reach {
        Reach::Domain(_) => Ok(identity.projects().await?.into_iter().map(|project| (project.id, project.domain_id)).collect()),
        Reach::Everywhere | Reach::Nowhere => Ok(BTreeMap::new()),
    }
}

/// True if the assignment is in a domain that the caller may read.
fn is_visible(one: &Shown, reach: &Reach, owners: &BTreeMap<String, String>) -> bool {
    match (&one.target, reach) {
        (_, Reach::Everywhere) => true,
        (Target::Domain(id), _) => reach.covers(id),
        (Target::Project(id), _) => owners.get(id).is_some_and(|domain| reach.covers(domain)),
        (Target::System, _) => false,
    }
}

/// The names of accounts and roles, by id, if the query asks for them.
#[derive(Default)]
struct Names {
    /// Each has the name and the domain; a role has none.
    of: BTreeMap<String, (String, Option<String>)>,
    domains: BTreeMap<String, String>,
}

impl Names {
    /// Returns an account or role with all names that are known.
    fn thing(&self, id: &str) -> Value {
        match self.of.get(id) {
            Some((name, Some(domain))) => json!({"id": id, "name": name, "domain": self.domain(domain)}),
            Some((name, None)) => json!({"id": id, "name": name}),
            None => json!({"id": id}),
        }
    }

    fn domain(&self, id: &str) -> Value {
        match self.domains.get(id) {
            Some(name) => json!({"id": id, "name": name}),
            None => json!({"id": id}),
        }
    }
}

async fn names(identity: &EmbeddedIdentity) -> Result<Names, ServiceError> {
    let projects = identity.projects().await?.into_iter().map(|project| (project.id, (project.name, Some(project.domain_id))));
    let users = identity.users().await?.into_iter().map(|user| (user.id, (user.name, Some(user.domain_id))));
    let roles = identity.roles().await?.into_iter().map(|role| (role.id, (role.name, None)));
    let groups = identity.groups().await?.into_iter().map(|group| (group.id, (group.name, Some(group.domain_id))));
    let domains = identity.domains().await?.into_iter().map(|domain| (domain.id, domain.name)).collect();
    Ok(Names { of: projects.chain(users).chain(roles).chain(groups).collect(), domains })
}

/// Answers 403 unless the caller may give and take this role. A manager may do so within the domain, for the roles below administrators.
async fn may_give(call: &Call, action: &str, assignment: &Assignment) -> Result<(), ApiError> {
    let reach = manages(&call.caller);
    require_within(call, &reach, action, &assignment.actor, &assignment.target).await?;
    if reach == Reach::Everywhere {
        return Ok(());
    }
    let role = call.service.role(&assignment.role_id).await.map_err(failed)?;
    require(action, MANAGED_ROLES.contains(&role.name.as_str()))
}

/// Answers 403 unless user or group, and project or domain, are within the caller's reach. Grants on the system are in no domain.
async fn require_within(call: &Call, reach: &Reach, action: &str, actor: &Actor, target: &Target) -> Result<(), ApiError> {
    let allowed = match reach {
        Reach::Everywhere => true,
        Reach::Domain(id) => call.service.are_in_domain(actor, target, id).await.map_err(failed)?,
        Reach::Nowhere => false,
    };
    require(action, allowed)
}

fn target(request: &HttpRequest) -> Target {
    let id = request.match_info().query("target").to_owned();
    match request.match_info().query("place") {
        "projects" => Target::Project(id),
        "domains" => Target::Domain(id),
        _ => Target::System,
    }
}

fn actor(request: &HttpRequest) -> Actor {
    match request.match_info().get("group") {
        Some(group) => Actor::Group(group.to_owned()),
        None => Actor::User(request.match_info().query("user").to_owned()),
    }
}

fn assignment(request: &HttpRequest) -> Assignment {
    let role_id = request.match_info().query("role").to_owned();
    Assignment { actor: actor(request), target: target(request), role_id }
}

fn render(request: &HttpRequest, one: &Shown, names: &Names) -> Value {
    let (scope, place) = match &one.target {
        Target::Project(id) => (json!({"project": names.thing(id)}), format!("projects/{id}")),
        Target::Domain(id) => (json!({"domain": names.domain(id)}), format!("domains/{id}")),
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
    json!({"role": names.thing(&one.role_id), kind: names.thing(id), "scope": scope, "links": links})
}
