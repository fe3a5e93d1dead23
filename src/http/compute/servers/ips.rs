//! `GET /servers/{id}/ips`: a server's addresses.

use actix_web::web;
use serde_json::json;

use super::{ComputeApi, view};
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, not_found, ok};

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/ips").route(web::get().to(index)))
        .service(web::resource("/servers/{id}/ips/{network}").route(web::get().to(show)));
}

async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let server = api.load(&caller, &id, "os_compute_api:ips:index").await?;
    let floating_ips = api.floating_ips(std::slice::from_ref(&server)).await;
    ok(&json!({"addresses": view::addresses(&server.network, &floating_ips, false)}))
}

async fn show(api: web::Data<ComputeApi>, Caller(caller): Caller, path: web::Path<(String, String)>) -> Answer {
    let (id, network) = path.into_inner();
    let server = api.load(&caller, &id, "os_compute_api:ips:show").await?;
    let floating_ips = api.floating_ips(std::slice::from_ref(&server)).await;
    match view::addresses(&server.network, &floating_ips, false).get(&network) {
        Some(addresses) => ok(&json!({ network: addresses })),
        None => Err(not_found("Instance is not a member of specified network")),
    }
}
