//! The version documents of the volume API, which need no token.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_domain::microversion::VOLUME;
use cellshift_web::base_url;
use serde_json::json;

pub(in crate::volume) fn configure(cfg: &mut web::ServiceConfig) {
    for path in ["", "/"] {
        cfg.service(web::resource(path).route(web::get().to(versions)));
    }
    // A scope only takes paths below it, so the path without a slash is registered beside the scope.
    cfg.service(web::resource("/v3").route(web::get().to(v3)));
}

pub(in crate::volume) fn configure_v3(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/").route(web::get().to(v3)));
}

async fn versions(request: HttpRequest) -> HttpResponse {
    HttpResponse::MultipleChoices().json(document(&request))
}

async fn v3(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(document(&request))
}

fn document(request: &HttpRequest) -> serde_json::Value {
    json!({"versions": [{
        "id": "v3.0",
        "status": "CURRENT",
        "version": VOLUME.max.to_string(),
        "min_version": VOLUME.min.to_string(),
        "updated": "2023-08-31T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/volume/v3/", base_url::of(request))}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    }]})
}
