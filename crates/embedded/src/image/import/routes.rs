//! Import of images: their bytes are staged, then made theirs. Deactivation, and what clients discover about both.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm};
use cellshift_web::json::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::image::images::attributes::STORE;
use crate::image::routes::{Call, failed, image_id};
use crate::request_bodies::{RequestBody, bodies};

/// The methods of import. There is one store, to which an image is copied from the beginning.
const METHODS: [&str; 2] = ["glance-direct", "copy-image"];
/// The methods by which the service would fetch bytes from an address that a user names.
const FETCHING: [&str; 2] = ["web-download", "glance-download"];

pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/v2/images/{id}/import").route(web::post().to(import)))
        .service(web::resource("/v2/images/{id}/actions/deactivate").route(web::post().to(deactivate)))
        .service(web::resource("/v2/images/{id}/actions/reactivate").route(web::post().to(reactivate)))
        .service(web::resource("/v2/info/import").route(web::get().to(import_methods)))
        .service(web::resource("/v2/info/stores").route(web::get().to(stores)));
}

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! { "image POST /v2/images/{}/import" => Body };

#[derive(Deserialize, JsonSchema)]
struct Body {
    method: Method,
    #[serde(default)]
    stores: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Method {
    name: String,
}

async fn import(call: Call, id: web::Path<String>, Json(body): Json<Body>) -> Result<HttpResponse, ApiError> {
    let refuse = |status, message: String| Err(ApiError::new(ErrorForm::Image, status, message));
    let id = image_id(&id)?;
    if let Some(other) = body.stores.iter().find(|store| *store != STORE) {
        return refuse(StatusCode::BAD_REQUEST, format!("There is no store {other}: the store here is {STORE}."));
    }
    match body.method.name.as_str() {
        "glance-direct" => call.service.import_staged(&call.caller.0, id).await.map_err(failed)?,
        "copy-image" => call.service.copy_to_store(&call.caller.0, id).await.map_err(failed)?,
        name if FETCHING.contains(&name) => {
            call.service.own_image(&call.caller.0, id).await.map_err(failed)?;
            return refuse(
                StatusCode::FORBIDDEN,
                format!("The import method {name} is disallowed by policy: it would fetch a user's address."),
            );
        }
        other => return refuse(StatusCode::BAD_REQUEST, format!("Unknown import method name '{}'.", shortened(other))),
    }
    Ok(HttpResponse::Accepted().finish())
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

async fn deactivate(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.service.set_usable(&call.caller.0, image_id(&id)?, false).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn reactivate(call: Call, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    call.service.set_usable(&call.caller.0, image_id(&id)?, true).await.map_err(failed)?;
    Ok(HttpResponse::NoContent().finish())
}

async fn import_methods(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"import-methods": {"description": "Import methods available.", "type": "array", "value": METHODS}}))
}

async fn stores(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"stores": [{"id": STORE, "default": "true"}]}))
}
