//! `GET /servers/{id}/topology`, from 2.78: a server's NUMA nodes. No guest has any here: nothing asks a host for them.

use actix_web::web;
use serde_json::json;

use super::ComputeApi;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, no_such_resource, ok};
use crate::http::compute::query::Query;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/servers/{id}/topology").route(web::get().to(index)));
}

async fn index(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    if !version.at_least(78) {
        return Err(no_such_resource());
    }
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    api.load(&caller, &id, "compute:server:topology:index").await?;
    ok(&json!({"nodes": [], "pagesize_kb": null}))
}
