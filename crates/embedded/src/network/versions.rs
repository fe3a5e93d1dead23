//! Version discovery.

use actix_web::{HttpRequest, HttpResponse, web};
use cellshift_web::base_url;
use serde_json::json;

const RESOURCES: &[&str] = &["networks", "subnets", "ports", "security-groups", "security-group-rules", "routers", "floatingips"];

pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(web::resource(["/network", "/network/"]).route(web::get().to(versions)))
        .service(web::resource(["/network/v2.0", "/network/v2.0/"]).route(web::get().to(resources)));
}

async fn versions(request: HttpRequest) -> HttpResponse {
    let links = json!([{"rel": "self", "href": format!("{}/network/v2.0/", base_url::of(&request))}]);
    HttpResponse::Ok().json(json!({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}))
}

async fn resources(request: HttpRequest) -> HttpResponse {
    let base = base_url::of(&request);
    let resource = |name: &&str| {
        let links = json!([{"rel": "self", "href": format!("{base}/network/v2.0/{name}")}]);
        json!({"collection": name, "name": name.trim_end_matches('s'), "links": links})
    };
    HttpResponse::Ok().json(json!({"resources": RESOURCES.iter().map(resource).collect::<Vec<_>>()}))
}
