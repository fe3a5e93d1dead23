//! The version document of the image API, which needs no token.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::base_url;
use serde_json::{Value, json};

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    for path in ["", "/", "/versions", "/v2", "/v2/"] {
        cfg.service(web::resource(path).route(web::get().to(versions)));
    }
}

async fn versions(request: HttpRequest) -> HttpResponse {
    let href = format!("{}/image/v2/", base_url::of(&request));
    let version = |id: &str, status: &str| json!({"id": id, "status": status, "links": [{"rel": "self", "href": href}]});
    let older = ["v2.2", "v2.1", "v2.0"].into_iter().map(|id| version(id, "SUPPORTED"));
    let all: Vec<Value> = std::iter::once(version("v2.17", "CURRENT")).chain(older).collect();
    HttpResponse::MultipleChoices().json(json!({"versions": all}))
}
