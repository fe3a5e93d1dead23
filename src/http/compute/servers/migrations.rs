//! `/servers/{id}/migrations`, from 2.23: live migrations only, which do not exist yet. A resize is not listed.

use actix_web::web;
use serde_json::json;

use super::{ComputeApi, access};
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, no_such_resource, not_found, ok};
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/migrations").route(web::get().to(index)))
        .service(web::resource("/servers/{id}/migrations/{migration}").route(web::get().to(show)).route(web::delete().to(abort)));
}

async fn index(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, id: web::Path<String>) -> Answer {
    if !version.at_least(23) {
        return Err(no_such_resource());
    }
    api.locate_for(&caller, &id, "os_compute_api:servers:migrations:index").await?;
    ok(&json!({"migrations": []}))
}

async fn show(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, path: web::Path<(String, String)>) -> Answer {
    none_such(&api, &caller, version, path, 23, "os_compute_api:servers:migrations:show").await
}

async fn abort(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, path: web::Path<(String, String)>) -> Answer {
    none_such(&api, &caller, version, path, 24, "os_compute_api:servers:migrations:delete").await
}

async fn none_such(
    api: &ComputeApi,
    caller: &crate::domain::context::RequestContext,
    version: ApiVersion,
    path: web::Path<(String, String)>,
    since: u16,
    rule: &str,
) -> Answer {
    if !version.at_least(since) {
        return Err(no_such_resource());
    }
    let (id, migration) = path.into_inner();
    let located = api.locate(caller, &id).await?;
    api.policy.authorize(rule, caller, &access::target(&located.instance))?;
    Err(not_found(format!("In-progress live migration {migration} is not found for server {id}.")))
}
