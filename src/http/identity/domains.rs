//! The only domain.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::{collection, link, not_found, reads_domain, reads_system, require};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::services::identity::embedded::{DOMAIN_ID, DOMAIN_NAME};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/domains").route(web::get().to(list)));
    cfg.service(web::resource("/domains/{id}").route(web::get().to(show)));
}

async fn list(request: HttpRequest, caller: Caller, query: web::Query<BTreeMap<String, String>>) -> Result<HttpResponse, ApiError> {
    require("identity:list_domains", reads_domain(&caller))?;
    let wanted = query.get("name").is_none_or(|name| name == DOMAIN_NAME);
    let domains = if wanted { vec![render(&request)] } else { Vec::new() };
    Ok(HttpResponse::Ok().json(collection(&request, "domains", domains)))
}

async fn show(request: HttpRequest, caller: Caller, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    // All projects are in the only domain, so a token for any project is also for the domain.
    let own = *id == DOMAIN_ID && (caller.0.domain_scope || !caller.0.project_id.is_empty());
    require("identity:get_domain", own || reads_system(&caller))?;
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
