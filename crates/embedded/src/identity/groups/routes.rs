//! The API's view of groups and their members, and who may read and change them.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::rights::{managed, manages, readable, reads, reads_of_user};
use crate::identity::routes::{Call, bad_request, failed, home, link, listed, not_found, stays_in_domain};
use crate::identity::users::routes as users;
use crate::identity::{Actor, EmbeddedIdentity, Group, GroupChanges, NewGroup};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::{self, Editable, Query, Shown, is};

pub fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure::<Group>(cfg);
    cfg.service(web::resource("/groups/{id}/users").route(web::get().to(list_members)));
    let member = web::resource("/groups/{id}/users/{user}").route(web::put().to(add_member)).route(web::head().to(check_member));
    cfg.service(member.route(web::get().to(check_member)).route(web::delete().to(remove_member)));
    cfg.service(web::resource("/users/{id}/groups").route(web::get().to(list_of_user)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /groups" => Body,
    "identity PATCH /groups/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    group: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    domain_id: Option<String>,
}

impl Shown for Group {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "group";
    const COLLECTION: &'static str = "groups";

    async fn list(call: &Call, query: &Query) -> Result<Vec<Group>, ApiError> {
        readable(call, "identity:list_groups", call.service.groups(), |group| matches(group, query)).await
    }

    async fn show(call: &Call, id: &str) -> Result<Group, ApiError> {
        reads(&call.caller).admit("identity:get_group", call.service.group(id).await)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        own(call, "identity:delete_group", id).await?;
        call.service.delete_group(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "domain_id": self.domain_id,
            "links": link(&call.request, &format!("groups/{}", self.id)),
        })
    }
}

impl Editable for Group {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { group }: Body) -> Result<Group, ApiError> {
        let domain_id = group.domain_id.unwrap_or_else(|| home(&call.caller));
        manages(&call.caller).require_in("identity:create_group", &domain_id)?;
        let new = NewGroup {
            domain_id,
            name: group.name.ok_or_else(|| bad_request("A group needs a name."))?,
            description: group.description.unwrap_or_default(),
        };
        call.service.create_group(new).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { group }: Body) -> Result<Group, ApiError> {
        let stored = own(call, "identity:update_group", id).await?;
        stays_in_domain(group.domain_id.as_deref(), &stored.domain_id)?;
        let changes = GroupChanges { name: group.name, description: group.description };
        call.service.update_group(id, changes).await.map_err(failed)
    }
}

/// Returns the group if the caller may change it.
async fn own(call: &Call, action: &str, id: &str) -> Result<Group, ApiError> {
    managed(call, action, &Actor::Group(id.to_owned()), call.service.group(id).await).await
}

/// True if the query's filters admit the group.
fn matches(group: &Group, query: &Query) -> bool {
    is(query, "name", &group.name) && is(query, "domain_id", &group.domain_id)
}

async fn list_of_user(call: Call, id: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    reads_of_user(&call.caller, &id).admit("identity:list_groups_for_user", call.service.user(&id).await)?;
    let mut groups = call.service.groups_of(&id).await.map_err(failed)?;
    groups.retain(|group| matches(group, &query));
    Ok(HttpResponse::Ok().json(listed(&call, &groups)))
}

async fn list_members(call: Call, id: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    reads(&call.caller).admit("identity:list_users_in_group", call.service.group(&id).await)?;
    let mut members = call.service.members(&id).await.map_err(failed)?;
    members.retain(|user| users::matches(user, &query));
    Ok(HttpResponse::Ok().json(listed(&call, &members)))
}

async fn add_member(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    may_change_member(&call, "identity:add_user_to_group", &path).await?;
    call.service.add_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn check_member(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (action, reach) = ("identity:check_user_in_group", reads(&call.caller));
    reach.admit(action, call.service.group(&path.0).await)?;
    reach.admit(action, call.service.user(&path.1).await)?;
    match call.service.is_member(&path.0, &path.1).await.map_err(failed)? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(not_found("user in group", &path.1)),
    }
}

async fn remove_member(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    may_change_member(&call, "identity:remove_user_from_group", &path).await?;
    call.service.remove_member(&path.0, &path.1).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Answers 403 unless the caller may change the group and reach the user, 404 if one of them is unknown.
async fn may_change_member(call: &Call, action: &str, (group, user): &(String, String)) -> Result<(), ApiError> {
    own(call, action, group).await?;
    manages(&call.caller).admit(action, call.service.user(user).await).map(drop)
}
