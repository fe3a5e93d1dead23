//! Roles.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{collection, failed, link, require_admin};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::identity::{EmbeddedIdentity, Role};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/roles").route(web::get().to(list)).route(web::post().to(create)));
    cfg.service(web::resource("/roles/{id}").route(web::get().to(show)).route(web::delete().to(delete)));
}

#[derive(Deserialize)]
struct Body {
    role: Fields,
}

#[derive(Deserialize)]
struct Fields {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

async fn list(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    _: Caller,
    query: web::Query<BTreeMap<String, String>>,
) -> Result<HttpResponse, ApiError> {
    let mut roles = identity.roles().await.map_err(failed)?;
    // A role of a domain is another thing; here all are global.
    roles.retain(|role| query.get("name").is_none_or(|name| *name == role.name) && !query.contains_key("domain_id"));
    let roles = roles.iter().map(|role| render(&request, role)).collect();
    Ok(HttpResponse::Ok().json(collection(&request, "roles", roles)))
}

async fn show(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    _: Caller,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let role = identity.role(&id).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"role": render(&request, &role)})))
}

async fn create(
    request: HttpRequest,
    identity: web::Data<EmbeddedIdentity>,
    caller: Caller,
    web::Json(Body { role }): web::Json<Body>,
) -> Result<HttpResponse, ApiError> {
    require_admin(&caller)?;
    let created = identity.create_role(&role.name, &role.description.unwrap_or_default()).await.map_err(failed)?;
    Ok(HttpResponse::Created().json(json!({"role": render(&request, &created)})))
}

async fn delete(identity: web::Data<EmbeddedIdentity>, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    require_admin(&caller)?;
    identity.delete_role(&id).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

pub(super) fn render(request: &HttpRequest, role: &Role) -> Value {
    json!({
        "id": role.id,
        "name": role.name,
        "description": role.description,
        "domain_id": null,
        "options": {},
        "links": link(request, &format!("roles/{}", role.id)),
    })
}
