//! The version documents of the identity API, which need no token.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::base_url;
use serde_json::{Value, json};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    for path in ["", "/"] {
        cfg.service(web::resource(path).route(web::get().to(versions)));
    }
    // A scope only takes paths below it, so the path without a slash is registered beside the scope.
    cfg.service(web::resource("/v3").route(web::get().to(v3)));
}

pub(super) fn configure_v3(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource("/").route(web::get().to(v3)));
}

async fn versions(request: HttpRequest) -> HttpResponse {
    HttpResponse::MultipleChoices().json(json!({"versions": {"values": [version(&request)]}}))
}

async fn v3(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(json!({"version": version(&request)}))
}

fn version(request: &HttpRequest) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/identity/v3/", base_url::of(request))}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    })
}
