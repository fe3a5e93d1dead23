//! `/os-hosts`, up to microversion 2.42: hosts by name, with what they have and what is used of it. `/os-services` and `/os-hypervisors` have
//! taken its place.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, no_such_resource, not_found, ok};
use super::body::rules::rules;
use super::body::{ALWAYS, Body};
use super::catalog::Catalog;
use super::hypervisors;
use super::query::Query;
use super::schema::Schema;
use super::zones::{COMPUTE, Zones};
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::flavor::Flavor;
use crate::domain::instance::Instance;
use crate::domain::service::ServiceChange;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;

/// The last microversion with this resource.
const LAST: u16 = 42;

/// The schemas of this resource, by request.
pub(in crate::http) static SCHEMAS: &[(&str, &Schema)] = &[("PUT /os-hosts/{}", &UPDATE.schema)];

static UPDATE: Body<HostChange> = Body::whole(ALWAYS);

rules! {
    /// The words that switch a host on or off.
    Switch = json!({"type": "string", "enum": ["enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE"]});
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["status"]}, {"required": ["maintenance_mode"]}]))]
struct HostChange {
    #[serde(default)]
    #[schemars(with = "Switch")]
    status: Option<String>,
    #[serde(default)]
    #[schemars(with = "Switch")]
    maintenance_mode: Option<String>,
}

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-hosts").route(web::get().to(list)))
        .service(web::resource("/os-hosts/{host}").route(web::get().to(show)).route(web::put().to(update)))
        .service(web::resource("/os-hosts/{host}/startup").route(web::get().to(start)))
        .service(web::resource("/os-hosts/{host}/shutdown").route(web::get().to(shut_down)))
        .service(web::resource("/os-hosts/{host}/reboot").route(web::get().to(reboot)));
}

/// Answers 404 to a microversion that has no hosts, and 403 unless the rule allows the caller.
fn admit(api: &Catalog, caller: &Caller, version: ApiVersion, rule: &str) -> Result<(), ApiError> {
    if !version.at_most(LAST) {
        return Err(no_such_resource());
    }
    api.allow(caller, rule)
}

/// Lists the enabled services with their hosts.
async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:list")?;
    let query = Query::of(&request)?;
    let zone = query.get("zone").filter(|zone| !zone.is_empty());
    let zones = Zones::read(&api).await?;
    let services = api.gather(|cell| cell.services()).await;
    let enabled = services.iter().map(|(_, service)| service).filter(|service| !service.disabled);
    let in_zone = enabled.filter(|service| zone.is_none_or(|zone| zones.of_service(service) == zone));
    let hosts: Vec<Value> =
        in_zone.map(|service| json!({"host_name": service.host, "service": service.topic, "zone": zones.of_service(service)})).collect();
    ok(&json!({"hosts": hosts}))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, host: web::Path<String>) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:show")?;
    let cell = cell_of(&api, &host).await?;
    let node = hypervisors::node_of(&api, cell, &host).await?.ok_or_else(|| unknown(&host))?;
    let mut servers = api.ask(cell, |db| db.instances_on_host(&host)).await?;
    servers.retain(|server| !server.hidden);
    let row = |project: &str, [cpu, memory_mb, disk_gb]: [i64; 3]| json!({"resource": {"host": *host, "project": project, "cpu": cpu, "memory_mb": memory_mb, "disk_gb": disk_gb}});
    let mut rows = vec![
        row("(total)", [node.vcpus, node.memory_mb, node.local_gb].map(i64::from)),
        row("(used_now)", [node.vcpus_used, node.memory_mb_used, node.local_gb_used].map(i64::from)),
        row("(used_max)", sum(&servers)),
    ];
    let mut projects: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
    for server in servers {
        projects.entry(server.project_id.clone()).or_default().push(server);
    }
    rows.extend(projects.iter().map(|(project, servers)| row(project, sum(servers))));
    ok(&json!({"host": rows}))
}

/// Returns the sums of the servers' cores, memory in MiB and disk in GiB.
fn sum(servers: &[Instance]) -> [i64; 3] {
    let total = |amount: fn(&Flavor) -> i64| servers.iter().map(|server| amount(&server.flavor)).sum();
    [
        total(|flavor| flavor.vcpus.into()),
        total(|flavor| flavor.memory_mb.into()),
        total(|flavor| i64::from(flavor.root_gb) + i64::from(flavor.ephemeral_gb)),
    ]
}

/// Enables or disables a host's compute service. No driver has a maintenance mode, so a request for one changes nothing.
async fn update(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, host: web::Path<String>, body: Document) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:update")?;
    let HostChange { status, maintenance_mode } = UPDATE.read(version, &body).await?;
    let cell = cell_of(&api, &host).await?;
    if maintenance_mode.is_some() {
        return Err(unsupported());
    }
    let disabled = status.is_some_and(|word| word.eq_ignore_ascii_case("disable"));
    let change = ServiceChange { disabled: Some(disabled), disabled_reason: Some(None), ..ServiceChange::default() };
    let service = api.ask(cell, |db| db.service_on(&host, COMPUTE)).await?;
    api.ask(cell, |db| db.change_service(service.uuid, change)).await?;
    ok(&json!({"host": *host, "status": if disabled { "disabled" } else { "enabled" }}))
}

async fn start(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, host: web::Path<String>) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:start")?;
    refuse_power(&api, &host).await
}

async fn shut_down(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, host: web::Path<String>) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:shutdown")?;
    refuse_power(&api, &host).await
}

async fn reboot(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, host: web::Path<String>) -> Answer {
    admit(&api, &caller, version, "os_compute_api:os-hosts:reboot")?;
    refuse_power(&api, &host).await
}

/// Answers 404 for an unknown host, and 501 for a known one: no driver switches its machine.
async fn refuse_power(api: &Catalog, host: &str) -> Answer {
    cell_of(api, host).await?;
    Err(unsupported())
}

async fn cell_of<'a>(api: &'a Catalog, host: &str) -> Result<&'a CellHandle, ApiError> {
    api.cell_of_host(host).await.map_err(|error| match error {
        DbError::NotFound(_) => unknown(host),
        other => other.into(),
    })
}

fn unknown(host: &str) -> ApiError {
    not_found(format!("Compute host {host} could not be found."))
}

fn unsupported() -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::NOT_IMPLEMENTED, "The requested functionality is not supported.")
}
