//! Users' credentials for other programs (`/credentials`).

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::ApiError;
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::application_credentials::routes::{own_token, owns};
use crate::identity::rights::{reads_system, require};
use crate::identity::routes::{bad_request, collection, failed, given, link, not_null};
use crate::identity::{CredentialChanges, EmbeddedIdentity, NewCredential, UserCredential};
use crate::request_bodies::{RequestBody, of_type};

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/credentials").route(web::get().to(list)).route(web::post().to(create)));
    let one = web::resource("/credentials/{id}");
    cfg.service(one.route(web::get().to(show)).route(web::patch().to(update)).route(web::delete().to(delete)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = &[("identity POST /credentials", of_type::<Body>), ("identity PATCH /credentials/{}", of_type::<Body>)];

#[derive(Deserialize, JsonSchema)]
struct Body {
    credential: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    blob: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "not_null")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    user_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    project_id: Option<Option<String>>,
}

/// Shows the caller's own, and all to readers of the system.
async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let (wanted, kind) = (query.get("user_id").map(String::as_str), query.get("type").map(String::as_str));
    let all = reads_system(&caller);
    let own = caller.0.user_id.as_str();
    let known = match wanted {
        Some(other) if !all && other != own => Vec::new(),
        _ => identity.credentials(if all { wanted } else { Some(own) }, kind).await.map_err(failed)?,
    };
    let known = known.iter().map(|one| render(&request, one)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "credentials", known)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let found = admitted(&identity, &caller, &id, "identity:get_credential", reads_system(&caller)).await?;
    Ok(HttpResponse::Ok().json(json!({"credential": render(&request, &found)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    Json(Body { credential: fields }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let needs = |field: &str| bad_request(format!("'{field}' is a required property"));
    let new = NewCredential {
        user_id: fields.user_id.ok_or_else(|| needs("user_id"))?,
        project_id: fields.project_id.flatten(),
        kind: fields.kind.ok_or_else(|| needs("type"))?,
        blob: fields.blob.ok_or_else(|| needs("blob"))?,
    };
    require("identity:create_credential", caller.0.is_admin() || owns(&caller, &new.user_id))?;
    let token = own_token(&request, &identity).await?;
    let made = identity.create_credential(token.as_ref(), new).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"credential": render(&request, &made)})))
}

async fn update(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
    Json(Body { credential: fields }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    let action = "identity:update_credential";
    admitted(&identity, &caller, &id, action, caller.0.is_admin()).await?;
    let Fields { blob, kind, user_id, project_id } = fields;
    // Nobody gives a credential to another user.
    require(action, caller.0.is_admin() || user_id.as_deref().is_none_or(|user| owns(&caller, user)))?;
    if blob.is_none() && kind.is_none() && user_id.is_none() && project_id.is_none() {
        return Err(bad_request("Invalid input for field 'credential': at least one of blob, type, user_id and project_id must change."));
    }
    let token = own_token(&request, &identity).await?;
    let changes = CredentialChanges { blob, kind, user_id, project_id };
    let changed = identity.update_credential(token.as_ref(), &id, changes).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"credential": render(&request, &changed)})))
}

async fn delete(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    admitted(&identity, &caller, &id, "identity:delete_credential", caller.0.is_admin()).await?;
    let token = own_token(&request, &identity).await?;
    identity.delete_credential(token.as_ref(), &id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns a credential of the caller's own, or any with the right to all. 403 for others and for unknown ones, so that nobody learns which
/// there are.
async fn admitted(identity: &EmbeddedIdentity, caller: &Caller, id: &str, action: &str, to_all: bool) -> Result<UserCredential, ApiError> {
    let found = identity.credential(id).await;
    let own = matches!(&found, Ok(found) if owns(caller, &found.user_id));
    match found {
        Err(error) if !matches!(error, ServiceError::NotFound(_)) => Err(failed(error)),
        found => require(action, to_all || own).and_then(|()| found.map_err(failed)),
    }
}

fn render(request: &HttpRequest, one: &UserCredential) -> Value {
    json!({
        "id": one.id,
        "user_id": one.user_id,
        "project_id": one.project_id,
        "type": one.kind,
        "blob": one.blob,
        "links": link(request, &format!("credentials/{}", one.id)),
    })
}
