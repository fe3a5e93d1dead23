//! Users' application credentials.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_domain::moment;
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use chrono::{DateTime, NaiveDateTime, Utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::rights::{reads_system, require};
use crate::identity::routes::{Call, bad_request, collection, failed, link};
use crate::identity::tokens::routes as tokens;
use crate::identity::{ApplicationCredential, AuthenticationError, NewApplicationCredential, RoleRef, Token};
use crate::request_bodies::{RequestBody, bodies, not_null};
use crate::resource::{Query, is};

pub fn configure(cfg: &mut web::ServiceConfig) {
    let all = web::resource("/users/{user}/application_credentials");
    cfg.service(all.route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/users/{user}/application_credentials/{id}");
    cfg.service(one.route(web::get().to(show)).route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! { "identity POST /users/{}/application_credentials" => Body };

#[derive(Deserialize, JsonSchema)]
struct Body {
    application_credential: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    name: Option<String>,
    description: Option<String>,
    secret: Option<String>,
    expires_at: Option<String>,
    #[serde(default)]
    roles: Option<Vec<RoleFields>>,
    unrestricted: Option<bool>,
    access_rules: Option<Vec<Value>>,
}

#[derive(Deserialize, JsonSchema)]
struct RoleFields {
    id: Option<String>,
    name: Option<String>,
}

async fn list(call: Call, user: web::Path<String>, query: web::Query<Query>) -> Result<HttpResponse, ApiError> {
    require("identity:list_application_credentials", owns(&call.caller, &user) || reads_system(&call.caller))?;
    let mut credentials = call.service.application_credentials(&user).await.map_err(failed)?;
    credentials.retain(|one| is(&query, "name", &one.record.name));
    let credentials = credentials.iter().map(|one| render(&call.request, one)).collect();
    Ok(HttpResponse::Ok().json(collection(&call.request, "application_credentials", credentials)))
}

async fn show(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (user, id) = path.into_inner();
    require("identity:get_application_credential", owns(&call.caller, &user) || reads_system(&call.caller))?;
    let credential = call.service.application_credential(&user, &id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"application_credential": render(&call.request, &credential)})))
}

async fn create(
    call: Call,
    user: web::Path<String>,
    Json(Body { application_credential: fields }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require("identity:create_application_credential", owns(&call.caller, &user))?;
    let without = || failed(ServiceError::Forbidden("An application credential is made with a token.".into()));
    let token = own_token(&call).await?.ok_or_else(without)?;
    let (credential, secret) = call.service.create_application_credential(&token, read(fields)?).await.map_err(failed)?;
    let mut body = render(&call.request, &credential);
    body["secret"] = json!(secret);
    Ok(HttpResponse::Created().json(json!({"application_credential": body})))
}

async fn delete(call: Call, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (user, id) = path.into_inner();
    require("identity:delete_application_credential", owns(&call.caller, &user) || call.caller.0.is_admin())?;
    let token = own_token(&call).await?;
    call.service.delete_application_credential(token.as_ref(), &user, &id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

pub(in crate::identity) fn owns(caller: &Caller, user: &str) -> bool {
    caller.0.user_id == user
}

/// Returns the token of the request's sender; none if the service asks for no tokens.
pub(in crate::identity) async fn own_token(call: &Call) -> Result<Option<Token>, ApiError> {
    let Some(id) = call.request.headers().get("X-Auth-Token").and_then(|value| value.to_str().ok()) else { return Ok(None) };
    match call.service.validate_token(id).await {
        Ok(token) => Ok(Some(token)),
        // The token has ended since it was judged at the door.
        Err(ServiceError::NotFound(_)) => Err(tokens::refused(AuthenticationError::Unauthorized)),
        Err(error) => Err(failed(error)),
    }
}

fn read(fields: Fields) -> Result<NewApplicationCredential, ApiError> {
    if fields.access_rules.is_some_and(|rules| !rules.is_empty()) {
        return Err(bad_request("Invalid input for field 'access_rules': this service has no access rules."));
    }
    let role = |role: RoleFields| match (role.id, role.name) {
        (Some(id), None) => Ok(RoleRef::Id(id)),
        (None, Some(name)) => Ok(RoleRef::Name(name)),
        _ => Err(bad_request("Invalid input for field 'roles': each has either an id or a name.")),
    };
    let roles = fields.roles.map(|roles| roles.into_iter().map(role).collect::<Result<Vec<RoleRef>, ApiError>>()).transpose()?;
    Ok(NewApplicationCredential {
        name: fields.name.ok_or_else(|| bad_request("An application credential needs a name."))?,
        description: fields.description,
        secret: fields.secret,
        expires_at: fields.expires_at.as_deref().map(read_time).transpose()?,
        roles: roles.unwrap_or_default(),
        unrestricted: fields.unrestricted.unwrap_or(false),
    })
}

/// Reads a time in ISO 8601; without an offset it is in UTC.
fn read_time(text: &str) -> Result<DateTime<Utc>, ApiError> {
    let with_offset = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    let time = with_offset.or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").map(|time| time.and_utc()));
    time.map_err(|_| bad_request("Invalid input for field 'expires_at': it is no time in ISO 8601, such as 2030-01-31T12:00:00Z."))
}

fn render(request: &HttpRequest, one: &ApplicationCredential) -> Value {
    let ApplicationCredential { record, roles } = one;
    let roles: Vec<Value> = roles.iter().map(|role| json!({"id": role.id, "name": role.name, "domain_id": null})).collect();
    json!({
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "user_id": record.user_id,
        "project_id": record.project_id,
        "roles": roles,
        "expires_at": record.expires_at.map(|ends| moment::micros(ends.and_utc())),
        "unrestricted": record.unrestricted,
        "links": link(request, &format!("users/{}/application_credentials/{}", record.user_id, record.id)),
    })
}
