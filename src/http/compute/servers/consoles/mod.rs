//! `POST /servers/{id}/remote-consoles`, from 2.6, the actions before it, and `/os-console-auth-tokens`. The simulated hypervisor has serial
//! consoles, whose WebSockets this service serves itself; each other type is one that is not available.

mod session;
#[cfg(test)]
mod tests;
mod token;

use std::time::Duration;

use actix_web::dev::ServiceRequest;
use actix_web::web;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use self::token::ConsoleToken;

use super::ComputeApi;
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::base_url;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, conflict, no_such_resource, not_found, ok};
use crate::http::compute::body::Body;
use crate::http::compute::body::rules::rules;
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::limits::InFlight;
use crate::http::schema::Schema;

/// The last microversion with an action for each type of console.
pub const LAST_ACTION: u16 = 5;
/// The first microversion in which a token of any console is shown.
const TOKENS_SINCE: u16 = 31;
/// The first microversion that names a port for TLS.
const TLS_PORT_SINCE: u16 = 99;
/// The protocol and the type of a serial console.
pub const SERIAL: &str = "serial";
/// The path of serial consoles' WebSockets.
pub const SOCKET: &str = "/compute/serial-console";
/// The maximum number of open consoles: each asks its host several times a second.
const OPEN_AT_ONCE: usize = 100;

/// The consoles that this process serves.
pub struct Consoles {
    open: InFlight,
    /// The time for which a token opens a console.
    token_ttl: Duration,
    /// True when the service stops.
    stopping: watch::Receiver<bool>,
}

impl Consoles {
    /// Makes a service of consoles whose tokens are good for `token_ttl`.
    pub fn new(token_ttl: Duration, stopping: watch::Receiver<bool>) -> Consoles {
        Consoles { open: InFlight::new(OPEN_AT_ONCE), token_ttl, stopping }
    }
}

/// True for the request that becomes a console's WebSocket: the bytes after its head are no body.
pub fn is_socket(request: &ServiceRequest) -> bool {
    request.path() == SOCKET
}

/// Registers the WebSocket, which is outside the API's versions.
pub fn socket(config: &mut web::ServiceConfig) {
    config.service(web::resource(SOCKET).route(web::get().to(session::open)));
}

/// Registers this resource's routes under the compute API's scope.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/servers/{id}/remote-consoles").route(web::post().to(create)))
        .service(web::resource("/os-console-auth-tokens/{token}").route(web::get().to(token)));
}

/// The schemas of this resource, by request.
pub(super) static SCHEMAS: &[(&str, &Schema)] = &[("POST /servers/{}/remote-consoles", &CREATE.schema)];

static CREATE: Body<RemoteConsole> = Body::within("remote_console", &[1, 8, 99]);

rules! {
    /// The protocols of consoles.
    Protocol = json!({"versions": [
        [1, {"enum": ["vnc", "spice", "serial", "rdp"]}],
        [8, {"enum": ["vnc", "spice", "serial", "rdp", "mks"]}],
    ]});
    /// The types of consoles.
    ConsoleType = json!({"versions": [
        [1, {"enum": ["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5"]}],
        [8, {"enum": ["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5", "webmks"]}],
        [99, {"enum": ["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5", "webmks", "spice-direct"]}],
    ]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoteConsole {
    #[schemars(with = "Protocol")]
    protocol: String,
    #[serde(rename = "type")]
    #[schemars(with = "ConsoleType")]
    kind: String,
}

async fn create(
    Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>,
    id: web::Path<String>,
    body: Document,
) -> Answer {
    if !version.at_least(LAST_ACTION + 1) {
        return Err(no_such_resource());
    }
    let RemoteConsole { protocol, kind } = CREATE.read(version, &body).await?;
    if kind != SERIAL || protocol != SERIAL {
        return Err(refuse(&api, &caller, &id, &kind).await);
    }
    let url = open_serial(&api, &caller, &id, &base_url::of(&request)).await?;
    ok(&json!({"remote_console": {"protocol": SERIAL, "type": SERIAL, "url": url}}))
}

/// Gives out the URL of a serial console, which is good for a while. 409 for a server without a host.
pub async fn open_serial(api: &ComputeApi, caller: &RequestContext, id: &str, base: &str) -> Result<String, ApiError> {
    let located = api.locate_for(caller, id, "os_compute_api:os-remote-consoles").await?;
    if located.instance.host.is_none() {
        return Err(conflict(format!("Instance {id} is not ready")));
    }
    let token = ConsoleToken::new(located.instance.uuid, &api.env, api.consoles.token_ttl).seal(&api.env);
    // ws for http, and wss for https.
    let address = base.strip_prefix("http").unwrap_or(base);
    Ok(format!("ws{address}{SOCKET}?token={}", base_url::escape(&token)))
}

/// Returns the refusal of a console: 409 for a server without a host, otherwise 400.
pub async fn refuse(api: &ComputeApi, caller: &RequestContext, id: &str, kind: &str) -> ApiError {
    match api.locate_for(caller, id, "os_compute_api:os-remote-consoles").await {
        Err(refusal) => refusal,
        Ok(located) if located.instance.host.is_none() => conflict(format!("Instance {id} is not ready")),
        Ok(_) => bad_request(format!("Unavailable console type {kind}.")),
    }
}

/// Says where the console of a token is, for a proxy that an operator runs.
async fn token(Call { request, api, caller: Caller(caller), version, .. }: Call<ComputeApi>, token: web::Path<String>) -> Answer {
    api.policy.authorize("os_compute_api:os-console-auth-tokens", &caller, &Target::own(&caller))?;
    if !version.at_least(TOKENS_SINCE) {
        return Err(bad_request("The console type of the token is not supported."));
    }
    let unknown = || not_found("Token not found");
    let token = ConsoleToken::open(&token, &api.env).ok_or_else(unknown)?;
    let instance = api.registry.find_server(token.server).await.map_err(|_| unknown())?.instance;
    let base = base_url::of(&request);
    let port =
        base.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(if base.starts_with("https") { 443 } else { 80 });
    let mut console = json!({"instance_uuid": instance.uuid, "host": instance.host, "port": port, "internal_access_path": null});
    if version.at_least(TLS_PORT_SINCE) {
        console["tls_port"] = Value::Null;
    }
    ok(&json!({"console": console}))
}
