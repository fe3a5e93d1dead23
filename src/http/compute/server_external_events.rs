//! `/os-server-external-events`: the network and volume services tell what happened to a server's parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::Answer;
use super::body::Body;
use super::body::rules::{ShortText, UuidText, rules};
use super::schema::Schema;
use super::servers::ComputeApi;
use crate::cell_registry::{LookupError, ServerRecord};
use crate::db::DbError;
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::saga::context::{DetachInterfaceRequest, Request};
use crate::saga::steps::ports::addresses_of;
use crate::services::ServiceError;

/// The maximum number of events in a request, because the server of each is looked up.
const MAX_EVENTS: usize = 128;

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("POST /os-server-external-events", &EVENTS.schema)];

static EVENTS: Body<Events> = Body::whole(&[1, 51, 76, 82, 93]);

rules! {
    /// The names of events, of which each microversion here has one more.
    EventName = event_name();
    /// How the sender's work ended.
    EventStatus = json!({"type": "string", "enum": ["failed", "completed", "in-progress"]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Events {
    #[schemars(extend("minItems" = 1, "maxItems" = MAX_EVENTS))]
    events: Vec<Event>,
}

/// An event of a server, as its sender wrote it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Event {
    #[schemars(with = "EventName")]
    name: String,
    #[schemars(with = "UuidText")]
    server_uuid: String,
    #[serde(default, rename = "status", skip_serializing)]
    #[schemars(with = "EventStatus")]
    _status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ShortText")]
    tag: Option<String>,
}

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config.service(web::resource("/os-server-external-events").route(web::post().to(create)));
}

fn event_name() -> Value {
    let mut names = vec!["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"];
    let mut versions = vec![json!([1, {"type": "string", "enum": names}])];
    for (since, name) in [(51, "volume-extended"), (76, "power-update"), (82, "accelerator-request-bound"), (93, "volume-reimaged")] {
        names.push(name);
        versions.push(json!([since, {"type": "string", "enum": names}]));
    }
    json!({"versions": versions})
}

/// Answers 200 if every event found its server, else 207. Each event has a code of its own, and work that follows goes on afterwards.
async fn create(api: web::Data<ComputeApi>, Caller(caller): Caller, version: ApiVersion, body: Document) -> Answer {
    api.policy.authorize("os_compute_api:os-server-external-events:create", &caller, &Target::own(&caller))?;
    let Events { events } = EVENTS.read(version, &body).await?;
    let servers = servers_of(&api, &events).await?;
    let (mut views, mut all_accepted) = (Vec::new(), true);
    for event in events {
        let server = event.server().and_then(|id| servers.get(&id)).map(Arc::as_ref);
        let code = event.code(server);
        if let Some(server) = server.filter(|_| code == 200) {
            obey(&api, &caller, server, &event).await;
        }
        all_accepted &= code == 200;
        let mut view = json!(event);
        view["code"] = json!(code);
        view["status"] = json!(if code == 200 { "completed" } else { "failed" });
        views.push(view);
    }
    let status = if all_accepted { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    Ok(HttpResponse::build(status).json(json!({"events": views})))
}

impl Event {
    fn server(&self) -> Option<Uuid> {
        Uuid::parse_str(&self.server_uuid).ok()
    }

    /// Returns the code of the event: 404 for an unknown server, 400 without the tag that it needs, 422 for a server without a host.
    fn code(&self, server: Option<&ServerRecord>) -> u16 {
        let needs_tag = matches!(self.name.as_str(), "volume-extended" | "power-update" | "accelerator-request-bound");
        match server {
            None => 404,
            Some(_) if needs_tag && self.tag.is_none() => 400,
            Some(server) if server.instance.host.is_none() => 422,
            Some(_) => 200,
        }
    }
}

/// Returns the servers of the events. An unknown one has no entry.
async fn servers_of(api: &ComputeApi, events: &[Event]) -> Result<BTreeMap<Uuid, Arc<ServerRecord>>, ApiError> {
    let mut servers = BTreeMap::new();
    for id in events.iter().filter_map(Event::server) {
        if servers.contains_key(&id) {
            continue;
        }
        match api.registry.server(id).await {
            Ok(server) => drop(servers.insert(id, server)),
            Err(LookupError::Db(DbError::NotFound(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(servers)
}

/// Does what an event asks for. Its sender has been answered for the event, so a failure is only logged.
async fn obey(api: &ComputeApi, caller: &RequestContext, server: &ServerRecord, event: &Event) {
    let tag = event.tag.as_deref().unwrap_or_default();
    let done = match (event.name.as_str(), tag) {
        ("network-changed", _) => renew_addresses(api, server.instance.uuid).await,
        ("network-vif-deleted", port) => detach(api, caller, server, port).await,
        ("volume-extended", volume) => record_size(api, caller, server, volume).await,
        ("power-update", "POWER_ON") => begin(api, caller, server, Request::Start).await,
        ("power-update", "POWER_OFF") => begin(api, caller, server, Request::Stop).await,
        // Hosts see plugged interfaces by themselves, and no accelerator and no volume is awaited.
        _ => Ok(()),
    };
    if let Err(error) = done {
        log::warn!(server:% = server.instance.uuid; "the event {:?} has no effect: {error}", event.name);
    }
}

fn service_error(error: ServiceError) -> ApiError {
    ApiError::from_service(ErrorForm::Compute, error)
}

async fn begin(api: &ComputeApi, caller: &RequestContext, server: &ServerRecord, request: Request) -> Result<(), ApiError> {
    api.begin(caller, &server.instance, request).await.map(drop)
}

async fn detach(api: &ComputeApi, caller: &RequestContext, server: &ServerRecord, port: &str) -> Result<(), ApiError> {
    let port_id = Uuid::parse_str(port).ok();
    match server.network.0.iter().find(|vif| Some(vif.port_id) == port_id) {
        Some(vif) => begin(api, caller, server, Request::DetachInterface(DetachInterfaceRequest { port_id: vif.port_id })).await,
        None => Ok(()),
    }
}

/// Reads the addresses of the server's ports anew.
pub(super) async fn renew_addresses(api: &ComputeApi, id: Uuid) -> Result<(), ApiError> {
    let ports = api.network.ports_of(id).await.map_err(service_error)?;
    let present = addresses_of(&ports);
    let located = api.registry.find_server(id).await?;
    Ok(api.registry.renew_addresses(&located, present).await?)
}

/// Records the new size of a volume, and an instance action by which its user sees that the server knows.
async fn record_size(api: &ComputeApi, caller: &RequestContext, server: &ServerRecord, volume: &str) -> Result<(), ApiError> {
    let volume_id = Uuid::parse_str(volume).ok();
    let device = server.block_devices.iter().find(|device| volume_id.is_some() && device.volume_id == volume_id);
    let Some((device, volume)) = device.and_then(|device| Some((device.uuid, device.volume_id?))) else { return Ok(()) };
    let size = api.volumes.volume(volume).await.map_err(service_error)?.size_gb;
    let located = api.registry.find_server(server.instance.uuid).await?;
    Ok(api.registry.record_volume_size(&located, caller, device, size).await?)
}
