//! The default volume types of projects, from 3.62 on. For administrators.

use actix_web::{HttpResponse, web};
use cellshift_web::auth::require_project;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::Authenticator;
use crate::request_bodies::{RequestBody, bodies};
use crate::volume::DefaultType;
use crate::volume::routes::{Call, bad_request, failed, not_found, require};

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/default-types").route(web::get().to(list)));
    let one = web::resource("/default-types/{project}").route(web::get().to(show)).route(web::put().to(set));
    cfg.service(one.route(web::delete().to(unset)));
}

/// The microversion that brought default types.
const FIRST: u16 = 62;

/// The bodies of the requests here.
pub(in crate::volume) const BODIES: &[RequestBody] = bodies! { "volume PUT /default-types/{}" => Body };

#[derive(Deserialize, JsonSchema)]
struct Body {
    default_type: Fields,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// The type's id or name.
    volume_type: String,
}

/// Answers 404 before the first microversion with default types.
fn since(call: &Call) -> Result<(), ApiError> {
    if call.version.at_least(FIRST) { Ok(()) } else { Err(not_found("Resource", "default-types")) }
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    since(&call)?;
    require(&call.caller, "admin")?;
    let defaults = call.service.default_types().await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"default_types": defaults.iter().map(view).collect::<Vec<_>>()})))
}

async fn show(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&call, &**identity, &project).await?;
    let default_type = call.service.default_type(&project).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"default_type": view(&default_type)})))
}

async fn set(
    call: Call,
    identity: web::Data<dyn Authenticator>,
    project: web::Path<String>,
    Json(Body { default_type: fields }): Json<Body>,
) -> Result<HttpResponse, ApiError> {
    permitted(&call, &**identity, &project).await?;
    if fields.volume_type.trim().is_empty() || fields.volume_type.len() > 255 {
        return Err(bad_request("Invalid input for field/attribute volume_type: it must have 1 to 255 characters."));
    }
    let default = call.service.set_default_type(&project, &fields.volume_type).await.map_err(failed)?;
    Ok(HttpResponse::Ok().json(json!({"default_type": view(&default)})))
}

async fn unset(call: Call, identity: web::Data<dyn Authenticator>, project: web::Path<String>) -> Result<HttpResponse, ApiError> {
    permitted(&call, &**identity, &project).await?;
    call.service.unset_default_type(&project).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn permitted(call: &Call, identity: &dyn Authenticator, project: &str) -> Result<(), ApiError> {
    since(call)?;
    require(&call.caller, "admin")?;
    require_project(identity, &call.caller, ErrorForm::Compute, project).await
}

fn view(default: &DefaultType) -> Value {
    json!({"project_id": default.project_id, "volume_type_id": default.type_id})
}
