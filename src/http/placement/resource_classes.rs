//! Resource classes.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Service, admit, error, refusal};
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::http::microversion::ApiVersion;

const SINCE: u16 = 2;
/// The minor version from which PUT makes a class instead of renaming one.
const PUT_MAKES: u16 = 7;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/placement/resource_classes").route(web::get().to(list)).route(web::post().to(create))).service(
        web::resource("/placement/resource_classes/{name}")
            .route(web::get().to(show))
            .route(web::put().to(ensure))
            .route(web::delete().to(delete)),
    );
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
}

async fn list(service: Service, caller: Caller, version: ApiVersion) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let classes = service.resource_classes().await.map_err(refusal)?;
    let bodies: Vec<Value> = classes.iter().map(|name| body(name)).collect();
    Ok(HttpResponse::Ok().json(json!({"resource_classes": bodies})))
}

async fn show(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    if service.resource_classes().await.map_err(refusal)?.contains(&name) {
        return Ok(HttpResponse::Ok().json(body(&name)));
    }
    Err(error(StatusCode::NOT_FOUND, format!("No such resource class: {name}.")))
}

async fn create(
    service: Service,
    caller: Caller,
    version: ApiVersion,
    request: HttpRequest,
    wanted: Json<Wanted>,
) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    let name = wanted.into_inner().name;
    let location = ("Location", format!("{}/placement/resource_classes/{name}", base_url::of(&request)));
    if !service.create_resource_class(name.clone()).await.map_err(refusal)? {
        return Err(error(StatusCode::CONFLICT, format!("Conflicting resource class already exists: {name}")));
    }
    Ok(HttpResponse::Created().insert_header(location).finish())
}

async fn ensure(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, PUT_MAKES)?;
    let made = service.create_resource_class(name.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::build(if made { StatusCode::CREATED } else { StatusCode::NO_CONTENT }).finish())
}

async fn delete(service: Service, caller: Caller, version: ApiVersion, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    admit(&caller, version, SINCE)?;
    service.delete_resource_class(name.into_inner()).await.map_err(refusal)?;
    Ok(HttpResponse::NoContent().finish())
}

fn body(name: &str) -> Value {
    json!({"name": name, "links": [{"rel": "self", "href": format!("/placement/resource_classes/{name}")}]})
}
