//! The one domain.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{collection, link, not_found};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::identity::embedded::{DOMAIN_ID, DOMAIN_NAME};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/domains").route(web::get().to(list)));
    cfg.service(web::resource("/domains/{id}").route(web::get().to(show)));
}

async fn list(request: HttpRequest, _: Caller, query: web::Query<BTreeMap<String, String>>) -> HttpResponse {
    let wanted = query.get("name").is_none_or(|name| name == DOMAIN_NAME);
    let domains = if wanted { vec![render(&request)] } else { Vec::new() };
    HttpResponse::Ok().json(collection(&request, "domains", domains))
}

async fn show(request: HttpRequest, _: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    if *id != DOMAIN_ID {
        return Err(not_found("domain", &id));
    }
    Ok(HttpResponse::Ok().json(json!({"domain": render(&request)})))
}

pub(super) fn render(request: &HttpRequest) -> Value {
    json!({
        "id": DOMAIN_ID,
        "name": DOMAIN_NAME,
        "description": "The default domain",
        "enabled": true,
        "tags": [],
        "options": {},
        "links": link(request, &format!("domains/{DOMAIN_ID}")),
    })
}
