//! Resource classes.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::base_url;
use cellshift_web::error::ApiError;
use cellshift_web::json::Unread;
use cellshift_web::schema::{Schema, wrapped};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::placement::body;
use crate::placement::routes::{Call, error, invalid, refusal};

const SINCE: u16 = 2;
/// The minor version from which PUT makes a class instead of renaming one.
const PUT_MAKES: u16 = 7;

pub(in crate::placement) static NAME: Schema = Schema::fixed(|_| wrapped("name", &custom_name()));
pub(in crate::placement) static CUSTOM: Schema = Schema::fixed(|_| custom_name());

/// Describes the name of a class or trait of one's own.
pub(in crate::placement) fn custom_name() -> Value {
    json!({"type": "string", "pattern": r"^CUSTOM_[A-Z0-9_]+$", "minLength": 1, "maxLength": 255})
}

pub(in crate::placement) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/resource_classes").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/resource_classes/{name}").route(web::get().to(show)).route(web::put().to(put)).route(web::delete().to(delete)),
    );
}

#[derive(Deserialize)]
struct Body {
    name: String,
}

async fn list(call: Call) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let classes = call.service.resource_classes().await.map_err(refusal)?;
    let bodies: Vec<Value> = classes.iter().map(|name| shown(name)).collect();
    Ok(HttpResponse::Ok().json(json!({"resource_classes": bodies})))
}

async fn show(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    if call.service.resource_classes().await.map_err(refusal)?.contains(&name) {
        return Ok(HttpResponse::Ok().json(shown(&name)));
    }
    Err(error(StatusCode::NOT_FOUND, format!("No such resource class: {name}.")))
}

async fn create(call: Call, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let document = body::read(body, &NAME, call.version).await?;
    let Body { name } = body::parsed(&document)?;
    if !call.service.create_resource_class(name.clone()).await.map_err(refusal)? {
        return Err(error(StatusCode::CONFLICT, format!("Conflicting resource class already exists: {name}")));
    }
    Ok(HttpResponse::Created().insert_header(location(&call.request, &name)).finish())
}

/// Makes a class if it is not there yet; before 1.7 renames it.
async fn put(call: Call, name: web::Path<String>, body: Unread) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    let name = name.into_inner();
    if !call.version.at_least(PUT_MAKES) {
        let document = body::read(body, &NAME, call.version).await?;
        let Body { name: new } = body::parsed(&document)?;
        call.service.rename_resource_class(name, new.clone()).await.map_err(refusal)?;
        return Ok(HttpResponse::Ok().json(shown(&new)));
    }
    if let Some(rule) = CUSTOM.rule_broken_by(call.version.0.minor, &json!(name)).map_err(crate::placement::routes::unavailable)? {
        return Err(invalid(rule));
    }
    let is_new = call.service.create_resource_class(name.clone()).await.map_err(refusal)?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    Ok(HttpResponse::build(status).insert_header(location(&call.request, &name)).finish())
}

fn location(request: &HttpRequest, name: &str) -> (&'static str, String) {
    ("Location", format!("{}/placement/resource_classes/{name}", base_url::of(request)))
}

async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.admit(SINCE)?;
    call.service.delete_resource_class(name.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn shown(name: &str) -> Value {
    json!({"name": name, "links": [{"rel": "self", "href": format!("/placement/resource_classes/{name}")}]})
}
