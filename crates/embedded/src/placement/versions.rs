//! Version discovery.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_domain::microversion::PLACEMENT;
use cellshift_web::base_url;
use serde_json::json;

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
