//! The compute API's version documents.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use crate::domain::microversion::COMPUTE;
use crate::http::base_url;

/// Registers the version documents, with and without a trailing slash.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .service(web::resource(["/compute", "/compute/"]).route(web::get().to(list)))
        .service(web::resource(["/compute/v2.1", "/compute/v2.1/"]).route(web::get().to(v2_1)))
        .service(web::resource(["/compute/v2", "/compute/v2/"]).route(web::get().to(v2_0)));
}

async fn list(request: HttpRequest) -> HttpResponse {
    let base = base_url::of(&request);
    HttpResponse::Ok().json(json!({"versions": [summary_v2_0(&base), summary_v2_1(&base)]}))
}

async fn v2_1(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(json!({"version": detailed(summary_v2_1(&base_url::of(&request)), "2.1")}))
}

async fn v2_0(request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().json(json!({"version": detailed(summary_v2_0(&base_url::of(&request)), "2")}))
}

fn summary_v2_0(base: &str) -> Value {
    json!({
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": "2011-01-21T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{base}/compute/v2/")}],
    })
}

fn summary_v2_1(base: &str) -> Value {
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": COMPUTE.max.to_string(),
        "min_version": COMPUTE.min.to_string(),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{base}/compute/v2.1/")}],
    })
}

/// Adds the parts of a version's own document: the link to its description, and its media type.
fn detailed(mut summary: Value, version: &str) -> Value {
    if let Some(links) = summary["links"].as_array_mut() {
        links.push(json!({"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}));
    }
    summary["media-types"] =
        json!([{"base": "application/json", "type": format!("application/vnd.openstack.compute+json;version={version}")}]);
    summary
}
