//! Volume types: one for single servers, one for shared volumes.

use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::volume::embedded::{MULTIATTACH_TYPE, TYPES, id_of_type, type_named};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/types").route(web::get().to(list)));
    cfg.service(web::resource("/types/{id}").route(web::get().to(show)));
}

async fn list(caller: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"volume_types": TYPES.map(|name| render(name, &caller))}))
}

async fn show(caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    // Accepts ids only, because clients try a name first and expect a 404.
    let name = type_named(&id).map_err(super::failed)?;
    if *id == name {
        return Err(super::not_found("Volume type", &id));
    }
    Ok(HttpResponse::Ok().json(json!({"volume_type": render(name, &caller)})))
}

fn render(name: &str, caller: &Caller) -> Value {
    let (specs, description) = match name {
        MULTIATTACH_TYPE => (json!({"multiattach": "<is> True"}), "A file that several servers may share"),
        _ => (json!({}), "A file"),
    };
    let mut body = json!({
        "id": id_of_type(name), "name": name, "description": description, "is_public": true,
        "os-volume-type-access:is_public": true, "extra_specs": specs,
    });
    if caller.0.is_admin() {
        body["qos_specs_id"] = Value::Null;
    }
    body
}
