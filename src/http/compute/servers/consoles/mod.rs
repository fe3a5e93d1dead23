//! `POST /servers/{id}/remote-consoles`, from 2.6, the actions before it, and `/os-console-auth-tokens`. The simulated hypervisor has no
//! remote consoles, so each type is one that is not available.

use actix_web::web;
use serde_json::{Value, json};

use super::{ComputeApi, schemas};
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::compute::answer::{Answer, bad_request, conflict, no_such_resource, not_found};
use crate::http::compute::schema;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// The last microversion with an action for each type of console.
pub const LAST_ACTION: u16 = 5;
/// The first microversion in which a token of any console is shown.
const TOKENS_SINCE: u16 = 31;

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/remote-consoles").route(web::post().to(create)))
        .service(web::resource("/os-console-auth-tokens/{token}").route(web::get().to(token)));
}

/// Returns the schema of `POST /servers/{id}/remote-consoles`.
pub fn create_schema(minor: u16) -> Value {
    let (mut protocols, mut types) = (vec!["vnc", "spice", "serial", "rdp"], vec!["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5"]);
    if minor >= 8 {
        protocols.push("mks");
        types.push("webmks");
    }
    if minor >= 99 {
        types.push("spice-direct");
    }
    let console = json!({"protocol": {"enum": protocols}, "type": {"enum": types}});
    schema::object(&json!({"remote_console": schema::object(&console, &["protocol", "type"])}), &["remote_console"])
}

async fn create(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, id: web::Path<String>, body: Document) -> Answer {
    if !version.at_least(LAST_ACTION + 1) {
        return Err(no_such_resource());
    }
    schemas::REMOTE_CONSOLE.check(version, &body).await?;
    let kind = body["remote_console"]["type"].as_str().unwrap_or_default();
    Err(refuse(&api, &caller, &id, kind).await)
}

/// Returns the refusal of a console: 409 for a server without a host, otherwise 400.
pub async fn refuse(api: &ComputeApi, caller: &RequestContext, id: &str, kind: &str) -> ApiError {
    match api.locate_for(caller, id, "os_compute_api:os-remote-consoles").await {
        Err(refusal) => refusal,
        Ok(located) if located.instance.host.is_none() => conflict(format!("Instance {id} is not ready")),
        Ok(_) => bad_request(format!("Unavailable console type {kind}.")),
    }
}

/// No console is ever given out, so no token is known.
async fn token(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion) -> Answer {
    api.policy.authorize("os_compute_api:os-console-auth-tokens", &caller, &Target::own(&caller))?;
    if version.at_least(TOKENS_SINCE) {
        Err(not_found("Token not found"))
    } else {
        Err(bad_request("The console type of the token is not supported."))
    }
}
