//! `/servers/{id}/os-server-password`: the password that a guest has published, encrypted with its owner's public key.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::web;
use serde_json::json;

use super::ComputeApi;
use crate::domain::instance_change::InstanceChange;
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, empty, ok};
use crate::http::compute::query::Query;

/// The names of the password's parts in a server's system metadata, as Nova stores it: a value has at most 255 characters.
const PARTS: [&str; 4] = ["password_0", "password_1", "password_2", "password_3"];

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/servers/{id}/os-server-password").route(web::get().to(show)).route(web::delete().to(clear)));
}

async fn show(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, id: web::Path<String>) -> Answer {
    if version.at_least(102) {
        Query::of(&request)?.only(&[])?;
    }
    let server = api.load(&caller, &id, "os_compute_api:os-server-password:show").await?;
    let metadata: &BTreeMap<String, String> = &server.instance.system_metadata;
    let password: String = PARTS.iter().filter_map(|part| metadata.get(*part)).map(String::as_str).collect();
    ok(&json!({"password": password}))
}

/// Forgets the published password. The guest keeps its own.
async fn clear(api: web::Data<ComputeApi>, Caller(caller): Caller, id: web::Path<String>) -> Answer {
    let located = api.locate_for(&caller, &id, "os_compute_api:os-server-password:clear").await?;
    let mut metadata = located.instance.system_metadata.clone();
    let before = metadata.len();
    metadata.retain(|key, _| !PARTS.contains(&key.as_str()));
    if metadata.len() < before {
        let change = InstanceChange { system_metadata: Some(metadata), ..InstanceChange::default() };
        api.registry.change_instance(&located, change).await?;
    }
    empty(StatusCode::NO_CONTENT)
}
