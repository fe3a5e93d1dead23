//! Volume types: one for one server, one for several.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};
use crate::services::volume::embedded::{DEFAULT_TYPE, MULTIATTACH_TYPE, TYPES};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/types").route(web::get().to(list)));
    cfg.service(web::resource("/types/{id}").route(web::get().to(show)));
}

/// The name of the type that this id or name means.
pub(super) fn name_of(wanted: &str) -> Result<&'static str, ApiError> {
    let wanted = if wanted == "default" { DEFAULT_TYPE } else { wanted };
    let found = TYPES.into_iter().find(|name| *name == wanted || id_of(name) == wanted);
    found.ok_or_else(|| ApiError::new(ErrorForm::Compute, StatusCode::NOT_FOUND, format!("Volume type {wanted} could not be found.")))
}

async fn list(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"volume_types": TYPES.map(render)}))
}

async fn show(_: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    // By id only: clients try a name first and expect a 404.
    let name = name_of(&id)?;
    if *id == name {
        return Err(super::not_found("Volume type", &id));
    }
    Ok(HttpResponse::Ok().json(json!({"volume_type": render(name)})))
}

fn id_of(name: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("volume-type/{name}").as_bytes()).to_string()
}

fn render(name: &str) -> Value {
    let (specs, description) = match name {
        MULTIATTACH_TYPE => (json!({"multiattach": "<is> True"}), "A file that several servers may share"),
        _ => (json!({}), "A file"),
    };
    json!({
        "id": id_of(name), "name": name, "description": description, "is_public": true,
        "os-volume-type-access:is_public": true, "extra_specs": specs, "qos_specs_id": null,
    })
}
