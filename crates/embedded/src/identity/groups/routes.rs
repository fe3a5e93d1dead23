//! Groups of users.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::rights::{MANAGED_ROLES, Reach, manages, reads, reads_of_user, require};
use crate::identity::routes::{bad_request, collection, failed, home, link, not_found, not_null, stays_in_domain};
use crate::identity::users::routes as users;
use crate::identity::{Actor, EmbeddedIdentity, Group, GroupChanges, NewGroup};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/groups").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/groups/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/groups/{id}/users").route(web::get().to(list_members)));
    let member = web::resource("/groups/{id}/users/{user}").route(web::put().to(add_member)).route(web::head().to(check_member));
    cfg.service(member.route(web::get().to(check_member)).route(web::delete().to(remove_member)));
    cfg.service(web::resource("/users/{id}/groups").route(web::get().to(list_of_user)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /groups", of_type::<Body>), ("identity PATCH /groups/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
    group: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    domain_id: Option<String>,
}

type Query = web::Query<BTreeMap<String, String>>;

async fn list(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller, query: Query) -> Result<HttpResponse, ApiError> {
    let reach = reads(&caller);
    reach.require("identity:list_groups")?;
    let mut groups = identity.groups().await.map_err(failed)?;
    groups.retain(|group| reach.covers(&group.domain_id));
    Ok(answer(&request, groups, &query))
}

async fn list_of_user(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    reads_of_user(&caller, &id).admit("identity:list_groups_for_user", identity.user(&id).await)?;
    let groups = identity.groups_of(&id).await.map_err(failed)?;
    Ok(answer(&request, groups, &query))
}

/// Answers with the groups that the query's filters admit.
fn answer(request: &HttpRequest, mut groups: Vec<Group>, query: &BTreeMap<String, String>) -> HttpResponse {
    groups.retain(|group| {
        let named = query.get("name").is_none_or(|name| *name == group.name);
        named && query.get("domain_id").is_none_or(|domain| *domain == group.domain_id)
    });
    let groups = groups.iter().map(|group| render(request, group)).collect();
    HttpResponse::Ok().json(collection(request, "groups", groups))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let group = reads(&caller).admit("identity:get_group", identity.group(&id).await)?;
    Ok(HttpResponse::Ok().json(json!({"group": render(&request, &group)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { group }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let domain_id = group.domain_id.unwrap_or_else(|| home(&caller));
    manages(&caller).require_in("identity:create_group", &domain_id)?;
    let new = NewGroup {
        domain_id,
        name: group.name.ok_or_else(|| bad_request("A group needs a name."))?,
        description: group.description.unwrap_or_default(),
    };
    let created = identity.create_group(new).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"group": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { group }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let known = managed(&identity, &caller, "identity:update_group", &id).await?;
    stays_in_domain(group.domain_id.as_deref(), &known.domain_id)?;
    let changes = GroupChanges { name: group.name, description: group.description };
    let updated = identity.update_group(&id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"group": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    managed(&identity, &caller, "identity:delete_group", &id).await?;
    identity.delete_group(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the group if the caller may change it. A manager may not change a group with more rights than a manager may give.
async fn managed(identity: &EmbeddedIdentity, caller: &Caller, action: &str, id: &str) -> Result<Group, ApiError> {
    let reach = manages(caller);
    let group = reach.admit(action, identity.group(id).await)?;
    if reach != Reach::Everywhere {
        let exceeds = identity.exceeds(&Actor::Group(group.id.clone()), &MANAGED_ROLES).await.map_err(failed)?;
        require(action, !exceeds)?;
    }
    Ok(group)
}

async fn list_members(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    reads(&caller).admit("identity:list_users_in_group", identity.group(&id).await)?;
    let mut members = identity.members(&id).await.map_err(failed)?;
    members.retain(|user| users::is_wanted(user, &query));
    let members = members.iter().map(|user| users::render(&request, user)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "users", members)))
}

async fn add_member(
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    may_change_member(&identity, &caller, "identity:add_user_to_group", &path).await?;
    identity.add_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check_member(
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    let (action, reach) = ("identity:check_user_in_group", reads(&caller));
    reach.admit(action, identity.group(&path.0).await)?;
    reach.admit(action, identity.user(&path.1).await)?;
    match identity.is_member(&path.0, &path.1).await.map_err(failed)? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(not_found("user in group", &path.1)),
    }
}

async fn remove_member(
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    may_change_member(&identity, &caller, "identity:remove_user_from_group", &path).await?;
    identity.remove_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Answers 403 unless the caller may change the group and reach the user, 404 if one of them is unknown.
async fn may_change_member(
    identity: &EmbeddedIdentity,
    caller: &Caller,
    action: &str,
    (group, user): &(String, String),
) -> Result<(), ApiError> {
    managed(identity, caller, action, group).await?;
    manages(caller).admit(action, identity.user(user).await).map(drop)
}

fn render(request: &HttpRequest, group: &Group) -> Value {
    json!({
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "domain_id": group.domain_id,
        "links": link(request, &format!("groups/{}", group.id)),
    })
}
