//! Groups of users.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::projects::in_the_domain;
use super::{bad_request, collection, failed, link, not_found, not_null, reads_domain, require, require_admin, users};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::services::identity::{EmbeddedIdentity, Group, GroupChanges};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/groups").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/groups/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/groups/{id}/users").route(web::get().to(list_members)));
    let member = web::resource("/groups/{id}/users/{user}").route(web::put().to(add_member)).route(web::head().to(check_member));
    cfg.service(member.route(web::get().to(check_member)).route(web::delete().to(remove_member)));
    cfg.service(web::resource("/users/{id}/groups").route(web::get().to(list_of_user)));
}

#[derive(Deserialize)]
struct Body {
    group: Fields,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    domain_id: Option<String>,
}

type Query = web::Query<BTreeMap<String, String>>;

async fn list(request: HttpRequest, identity: web::Data<EmbeddedIdentity>, caller: Caller, query: Query) -> Result<HttpResponse, ApiError> {
    require("identity:list_groups", reads_domain(&caller))?;
    let groups = identity.groups().await.map_err(failed)?;
    Ok(answer(&request, groups, &query))
}

async fn list_of_user(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_groups_for_user", caller.0.user_id == *id || reads_domain(&caller))?;
    let groups = identity.groups_of(&id).await.map_err(failed)?;
    Ok(answer(&request, groups, &query))
}

/// Answers with the groups that the query's filters admit.
fn answer(request: &HttpRequest, mut groups: Vec<Group>, query: &BTreeMap<String, String>) -> HttpResponse {
    groups.retain(|group| {
        query.get("name").is_none_or(|name| *name == group.name) && query.get("domain_id").is_none_or(|domain| domain == "default")
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
    require("identity:get_group", reads_domain(&caller))?;
    let group = identity.group(&id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"group": render(&request, &group)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { group }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:create_group", &caller)?;
    in_the_domain(group.domain_id.as_deref())?;
    let name = group.name.ok_or_else(|| bad_request("A group needs a name."))?;
    let created = identity.create_group(&name, &group.description.unwrap_or_default()).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"group": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { group }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin("identity:update_group", &caller)?;
    in_the_domain(group.domain_id.as_deref())?;
    let changes = GroupChanges { name: group.name, description: group.description };
    let updated = identity.update_group(&id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"group": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin("identity:delete_group", &caller)?;
    identity.delete_group(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list_members(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    require("identity:list_users_in_group", reads_domain(&caller))?;
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
    require_admin("identity:add_user_to_group", &caller)?;
    identity.add_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check_member(
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, ApiError> {
    require("identity:check_user_in_group", reads_domain(&caller))?;
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
    require_admin("identity:remove_user_from_group", &caller)?;
    identity.remove_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

fn render(request: &HttpRequest, group: &Group) -> Value {
    json!({
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "domain_id": "default",
        "links": link(request, &format!("groups/{}", group.id)),
    })
}
