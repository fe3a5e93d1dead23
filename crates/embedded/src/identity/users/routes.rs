//! Users.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::identity::projects::routes as projects;
use crate::identity::rights::{MANAGED_ROLES, Reach, manages, reads, reads_of_user, require};
use crate::identity::routes::{
    bad_request, collection, failed, given, home, is_wanted_flag, link, not_null, stays_in_domain, without_options,
};
use crate::identity::tokens::routes::refused;
use crate::identity::{Actor, EmbeddedIdentity, NewUser, User, UserUpdate};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/users").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/users/{id}").route(web::get().to(show)).route(web::patch().to(update));
    cfg.service(one.route(web::delete().to(delete)));
    cfg.service(web::resource("/users/{id}/password").route(web::post().to(change_password)));
    cfg.service(web::resource("/users/{id}/projects").route(web::get().to(list_projects)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[
    ("identity POST /users", of_type::<Body>),
    ("identity PATCH /users/{}", of_type::<Body>),
    ("identity POST /users/{}/password", of_type::<PasswordBody>),
];

#[derive(Deserialize, JsonSchema)]
struct Body {
    user: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    password: Option<Option<String>>,
    description: Option<String>,
    #[serde(default, deserialize_with = "given")]
    email: Option<Option<String>>,
    #[serde(default, deserialize_with = "not_null")]
    enabled: Option<bool>,
    domain_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
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

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let reach = reads(&caller);
    reach.require("identity:list_users")?;
    let mut users = identity.users().await.map_err(failed)?;
    users.retain(|user| reach.covers(&user.domain_id) && is_wanted(user, &query));
    let users = users.iter().map(|user| render(&request, user)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "users", users)))
}

/// True if the query's filters admit the user.
pub(in crate::identity) fn is_wanted(user: &User, query: &BTreeMap<String, String>) -> bool {
    query.get("name").is_none_or(|name| *name == user.name)
        && query.get("domain_id").is_none_or(|domain| *domain == user.domain_id)
        && is_wanted_flag(query, "enabled", user.enabled)
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let user = reads_of_user(&caller, &id).admit("identity:get_user", identity.user(&id).await)?;
    Ok(HttpResponse::Ok().json(json!({"user": render(&request, &user)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { user }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let domain_id = user.domain_id.unwrap_or_else(|| home(&caller));
    manages(&caller).require_in("identity:create_user", &domain_id)?;
    let new = NewUser {
        domain_id,
        name: user.name.ok_or_else(|| bad_request("A user needs a name."))?,
        password: user.password.flatten(),
        description: user.description.unwrap_or_default(),
        email: user.email.flatten(),
        enabled: user.enabled.unwrap_or(true),
        default_project_id: user.default_project_id.flatten(),
    };
    let created = identity.create_user(new).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"user": render(&request, &created)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { user }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let known = managed(&identity, &caller, "identity:update_user", &id).await?;
    stays_in_domain(user.domain_id.as_deref(), &known.domain_id)?;
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
    let updated = identity.update_user(&id, update).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"user": render(&request, &updated)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    managed(&identity, &caller, "identity:delete_user", &id).await?;
    identity.delete_user(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the user if the caller may change the account. A manager may not take over an account with more rights than a manager may give.
pub(in crate::identity) async fn managed(identity: &EmbeddedIdentity, caller: &Caller, action: &str, id: &str) -> Result<User, ApiError> {
    let reach = manages(caller);
    let user = reach.admit(action, identity.user(id).await)?;
    if reach != Reach::Everywhere {
        let exceeds = identity.exceeds(&Actor::User(user.id.clone()), &MANAGED_ROLES).await.map_err(failed)?;
        require(action, !exceeds)?;
    }
    Ok(user)
}

async fn change_password(
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(PasswordBody { user }): Json<PasswordBody>,
) -> Result<HttpResponse, ApiError> {
    require("identity:change_password", caller.0.user_id == *id || caller.0.is_admin())?;
    identity.change_password(&id, &user.original_password, user.password).await.map_err(refused)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list_projects(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    reads_of_user(&caller, &id).admit("identity:list_user_projects", identity.user(&id).await)?;
    let known = identity.projects_of(&id).await.map_err(failed)?;
    let known = known.iter().map(|project| projects::render(&request, project)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "projects", known)))
}

pub(in crate::identity) fn render(request: &HttpRequest, user: &User) -> Value {
    let mut body = json!({
        "id": user.id,
        "name": user.name,
        "description": user.description,
        "enabled": user.enabled,
        "domain_id": user.domain_id,
        "password_expires_at": null,
        "options": {},
        "links": link(request, &format!("users/{}", user.id)),
    });
    if let Some(email) = &user.email {
        body["email"] = json!(email);
    }
    if let Some(project) = &user.default_project_id {
        body["default_project_id"] = json!(project);
    }
    body
}
