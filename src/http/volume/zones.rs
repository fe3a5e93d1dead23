//! The availability zone, and the empty list of extensions.

use actix_web::{HttpResponse, web};
use serde_json::json;

use crate::http::auth::Caller;
use crate::services::volume::embedded::ZONE;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/os-availability-zone").route(web::get().to(list)));
    cfg.service(web::resource("/extensions").route(web::get().to(extensions)));
}

async fn list(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"availabilityZoneInfo": [{"zoneName": ZONE, "zoneState": {"available": true}}]}))
}

async fn extensions(_: Caller) -> HttpResponse {
    HttpResponse::Ok().json(json!({"extensions": []}))
}
