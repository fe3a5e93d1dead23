//! Version discovery.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use crate::domain::microversion::PLACEMENT;
use crate::http::base_url;

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource(["", "/"]).route(web::get().to(versions)));
}

async fn versions(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(json!({"versions": [{
        "id": "v1.0",
        "status": "CURRENT",
        "min_version": PLACEMENT.min.to_string(),
        "max_version": PLACEMENT.max.to_string(),
        "links": [{"rel": "self", "href": format!("{}/placement", base_url::of(&request))}],
    }]}))
}
