//! The API's view of users, and who may read and change them. Users change their own passwords, and see their projects.

use actix_web::{HttpResponse, web};
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::rights::{managed, manages, readable, reads_of_user, require};
use crate::identity::routes::{Call, bad_request, failed, home, is_flag, link, listed, stays_in_domain, without_options};
use crate::identity::tokens::routes::refused;
use crate::identity::{Actor, EmbeddedIdentity, NewUser, User, UserUpdate};
use crate::request_bodies::{RequestBody, bodies, not_null, nullable};
use crate::resource::{self, Editable, Query, Shown, is};

pub fn configure(cfg: &mut web::ServiceConfig) {
    resource::configure::<User>(cfg);
    cfg.service(web::resource("/users/{id}/password").route(web::post().to(change_password)));
    cfg.service(web::resource("/users/{id}/projects").route(web::get().to(list_projects)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /users" => Body,
    "identity PATCH /users/{}" => Body,
    "identity POST /users/{}/password" => PasswordBody,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    user: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    password: Option<Option<String>>,
    description: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    email: Option<Option<String>>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
    domain_id: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    default_project_id: Option<Option<String>>,
    #[serde(default, rename = "options", deserialize_with = "without_options")]
    #[schemars(with = "Option<Map<String, Value>>")]
    _options: (),
}

#[derive(Deserialize, JsonSchema)]
struct PasswordBody {
    user: Passwords,
}

#[derive(Deserialize, JsonSchema)]
struct Passwords {
    original_password: String,
    password: String,
}

impl Shown for User {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "user";
    const COLLECTION: &'static str = "users";

    async fn list(call: &Call, query: &Query) -> Result<Vec<User>, ApiError> {
        readable(call, "identity:list_users", call.service.users(), |user| matches(user, query)).await
    }

    async fn show(call: &Call, id: &str) -> Result<User, ApiError> {
        reads_of_user(&call.caller, id).admit("identity:get_user", call.service.user(id).await)
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        own(call, "identity:delete_user", id).await?;
        call.service.delete_user(id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        let mut body = json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "enabled": self.enabled,
            "domain_id": self.domain_id,
            "password_expires_at": null,
            "options": {},
            "links": link(&call.request, &format!("users/{}", self.id)),
        });
        if let Some(email) = &self.email {
            body["email"] = json!(email);
        }
        if let Some(project) = &self.default_project_id {
            body["default_project_id"] = json!(project);
        }
        body
    }
}

impl Editable for User {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { user }: Body) -> Result<User, ApiError> {
        let domain_id = user.domain_id.unwrap_or_else(|| home(&call.caller));
        manages(&call.caller).require_in("identity:create_user", &domain_id)?;
        let new = NewUser {
            domain_id,
            name: user.name.ok_or_else(|| bad_request("A user needs a name."))?,
            password: user.password.flatten(),
            description: user.description.unwrap_or_default(),
            email: user.email.flatten(),
            enabled: user.enabled.unwrap_or(true),
            default_project_id: user.default_project_id.flatten(),
        };
        call.service.create_user(new).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { user }: Body) -> Result<User, ApiError> {
        let stored = own(call, "identity:update_user", id).await?;
        stays_in_domain(user.domain_id.as_deref(), &stored.domain_id)?;
        let password = match user.password {
            Some(None) => return Err(bad_request("Invalid input for field 'password': it must not be null.")),
            password => password.flatten(),
        };
        let update = UserUpdate {
            name: user.name,
            description: user.description,
            email: user.email,
            enabled: user.enabled,
            default_project_id: user.default_project_id,
            password,
        };
        call.service.update_user(id, update).await.map_err(failed)
    }
}

/// Returns the user if the caller may change the account.
async fn own(call: &Call, action: &str, id: &str) -> Result<User, ApiError> {
    managed(call, action, &Actor::User(id.to_owned()), call.service.user(id).await).await
}

/// True if the query's filters admit the user.
pub(in crate::identity) fn matches(user: &User, query: &Query) -> bool {
    is(query, "name", &user.name) && is(query, "domain_id", &user.domain_id) && is_flag(query, "enabled", user.enabled)
}

async fn change_password(
    call: Call,
    id: web::Path<String>,
    Json(PasswordBody { user }): Json<PasswordBody>,
) -> Result<HttpResponse, ApiError> {
    require("identity:change_password", call.caller.0.user_id == *id || call.caller.0.is_admin())?;
    call.service.change_password(&id, &user.original_password, user.password).await.map_err(refused)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list_projects(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    reads_of_user(&call.caller, &id).admit("identity:list_user_projects", call.service.user(&id).await)?;
    Ok(HttpResponse::Ok().json(listed(&call, &call.service.projects_of(&id).await.map_err(failed)?)))
}
