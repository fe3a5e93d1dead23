//! `/os-hypervisors`: each host's resources, their usage, and the servers on the host.

mod view;

use std::time::Duration;

use actix_web::{HttpRequest, web};
use chrono::{DateTime, Utc};
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{Answer, bad_request, no_such_resource, not_found, ok, unavailable};
use super::catalog::Catalog;
use super::query::{Page, Query};
use super::schema::strict_bool;
use super::zones::COMPUTE;
use crate::actors::cell::CellHandle;
use crate::actors::cell_registry::SilentCell;
use crate::db::cell::compute_nodes::ComputeNode;
use crate::db::cell::services::Service;
use crate::domain::flavor::Resources;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;
use view::{detailed, summary};

/// The time after which an answer goes on without a host's claims.
const HOST_PATIENCE: Duration = Duration::from_secs(2);

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-hypervisors").route(web::get().to(list)))
        .service(web::resource("/os-hypervisors/detail").route(web::get().to(list_detailed)))
        .service(web::resource("/os-hypervisors/statistics").route(web::get().to(statistics)))
        .service(web::resource("/os-hypervisors/{id}").route(web::get().to(show)))
        .service(web::resource("/os-hypervisors/{id}/uptime").route(web::get().to(uptime)))
        .service(web::resource("/os-hypervisors/{pattern}/search").route(web::get().to(search)))
        .service(web::resource("/os-hypervisors/{pattern}/servers").route(web::get().to(servers)));
}

/// A compute node with its service and its cell.
struct Hypervisor<'a> {
    cell: &'a CellHandle,
    node: ComputeNode,
    service: Service,
    /// The moment at which the host got its power; none if the host does not answer.
    up_since: Option<DateTime<Utc>>,
}

impl Hypervisor<'_> {
    /// Returns the id that clients of this version see.
    fn id(&self, version: ApiVersion) -> Value {
        if version.at_least(53) { json!(self.node.uuid) } else { json!(self.node.id) }
    }
}

/// All hypervisors that the cells reported.
struct Known<'a> {
    /// Ordered by cell and id.
    found: Vec<Hypervisor<'a>>,
    /// The cells whose compute nodes are missing.
    silent: Vec<SilentCell>,
}

impl Known<'_> {
    /// Makes a 404, or a 503 if a silent cell may have the hypervisor.
    fn not_found(&self, message: String) -> ApiError {
        match self.silent.first() {
            None => not_found(message),
            Some(cell) => unavailable(format!("{message} Not every cell answers: {}.", cell.reason)),
        }
    }
}

/// Returns all compute nodes that have a service, with their host's present claims, or with the last counted usage if the host does not
/// answer.
async fn all(api: &Catalog) -> Known<'_> {
    let asked = api.gather_named(async |cell| Ok(vec![(cell.compute_nodes().await?, cell.services().await?)])).await;
    let mut found = Vec::new();
    for (cell, (nodes, services)) in asked.found {
        let mut here: Vec<Hypervisor> = nodes
            .into_iter()
            .filter_map(|node| {
                let service = services.iter().find(|service| service.uuid == node.service_id)?.clone();
                Some(Hypervisor { cell, node, service, up_since: None })
            })
            .collect();
        here.sort_by_key(|hypervisor| hypervisor.node.id);
        found.extend(here);
    }
    join_all(found.iter_mut().map(ask_host)).await;
    Known { found, silent: asked.silent }
}

/// Returns the compute node of a cell's host, with the usage of its claims; none if the host has no compute node.
pub(super) async fn node_of(api: &Catalog, cell: &CellHandle, host: &str) -> Result<Option<ComputeNode>, ApiError> {
    let nodes = api.ask(cell, |db| db.compute_nodes()).await?;
    let service = api.ask(cell, |db| db.service_on(host, COMPUTE)).await?;
    let Some(node) = nodes.into_iter().find(|node| node.host == host) else { return Ok(None) };
    let mut hypervisor = Hypervisor { cell, node, service, up_since: None };
    ask_host(&mut hypervisor).await;
    Ok(Some(hypervisor.node))
}

/// Asks the host since when it runs, and for its claims. The usage is that of the claims, because they include the room that a move keeps
/// at its source. One cell's records do not (INVARIANTS D4).
async fn ask_host(hypervisor: &mut Hypervisor<'_>) {
    let asked = HostQuery::Report;
    let answer = hypervisor.cell.hosts.query(&hypervisor.node.host, asked, HOST_PATIENCE).await;
    let Ok(HostAnswer::Report(report)) = answer else { return };
    hypervisor.up_since = report.up_since;
    let sum = |amount: fn(&Resources) -> i64| {
        let total = report.claims.iter().map(|(_, claimed)| amount(&claimed.room)).sum::<i64>();
        i32::try_from(total).unwrap_or(i32::MAX)
    };
    let node = &mut hypervisor.node;
    (node.vcpus_used, node.memory_mb_used, node.local_gb_used) = (sum(|r| r.vcpu), sum(|r| r.memory_mb), sum(|r| r.disk_gb));
    let guests = report.guests.iter().filter(|guest| guest.defined).count();
    node.running_vms = i32::try_from(guests).unwrap_or(i32::MAX);
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-hypervisors:list")?;
    listed(version, &api, &request, false).await
}

async fn list_detailed(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-hypervisors:list-detail")?;
    listed(version, &api, &request, true).await
}

async fn listed(version: ApiVersion, api: &Catalog, request: &HttpRequest, whole: bool) -> Answer {
    let query = Query::of(request)?;
    if version.at_least(53) {
        query.only(&["hypervisor_hostname_pattern", "with_servers", "limit", "marker"])?;
    } else if version.at_least(33) {
        query.only(&["limit", "marker"])?;
    }
    let with_servers = version.at_least(53) && query.flag("with_servers")?;
    let pattern = query.get("hypervisor_hostname_pattern").filter(|_| version.at_least(53));
    let paged = version.at_least(33) && pattern.is_none();
    if pattern.is_some() && query.get("limit").or(query.get("marker")).is_some() {
        return Err(bad_request("Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported."));
    }
    let known = all(api).await;
    let page = query.page(api.max_limit)?;
    let found = match pattern {
        Some(pattern) => matching(known, pattern)?,
        None if paged => cut(&page, known, version)?,
        None => known.found,
    };
    let mut views = Vec::with_capacity(found.len());
    for hypervisor in &found {
        let mut view = if whole { detailed(api, hypervisor, version) } else { summary(api, hypervisor, version) };
        if with_servers {
            add_servers(api, &mut view, hypervisor, version).await?;
        }
        views.push(view);
    }
    let mut body = json!({"hypervisors": views});
    let collection = if whole { "os-hypervisors/detail" } else { "os-hypervisors" };
    let last = found.last().map(|hypervisor| text(&hypervisor.id(version)));
    if let Some(next) = page.next(request, &query, collection, found.len(), last).filter(|_| paged) {
        body["hypervisors_links"] = next;
    }
    ok(&body)
}

fn cut<'a>(page: &Page, known: Known<'a>, version: ApiVersion) -> Result<Vec<Hypervisor<'a>>, ApiError> {
    let marker = page.marker.as_deref().unwrap_or_default();
    let cut = page.cut_heard(known.found, |hypervisor| text(&hypervisor.id(version)), &known.silent);
    cut.map_err(|error| if known.silent.is_empty() { bad_request(format!("marker [{marker}] not found")) } else { error })
}

fn text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns the hypervisors whose name contains the pattern. 404 if there are none.
fn matching<'a>(mut known: Known<'a>, pattern: &str) -> Result<Vec<Hypervisor<'a>>, ApiError> {
    let wanted = pattern.to_lowercase();
    known.found.retain(|hypervisor| hypervisor.node.hypervisor_hostname.to_lowercase().contains(&wanted));
    if known.found.is_empty() {
        return Err(known.not_found(format!("No hypervisor matching '{pattern}' could be found.")));
    }
    Ok(known.found)
}

/// Adds the servers on the hypervisor, without hidden copies.
async fn add_servers(api: &Catalog, view: &mut Value, hypervisor: &Hypervisor<'_>, version: ApiVersion) -> Result<(), ApiError> {
    let servers = api.ask(hypervisor.cell, |db| db.instances_on_host(&hypervisor.node.host)).await?;
    let servers: Vec<Value> =
        servers.iter().filter(|server| !server.hidden).map(|server| json!({"name": server.instance_name(), "uuid": server.uuid})).collect();
    if !servers.is_empty() || version.at_least(75) {
        view["servers"] = json!(servers);
    }
    Ok(())
}

async fn one<'a>(api: &'a Catalog, id: &str, version: ApiVersion) -> Result<Hypervisor<'a>, ApiError> {
    let uuid = Uuid::parse_str(id).ok();
    let wanted = |known: &Hypervisor| match version.at_least(53) {
        true => uuid == Some(known.node.uuid),
        false => id.parse() == Ok(known.node.id),
    };
    let mut known = all(api).await;
    match known.found.iter().position(wanted) {
        Some(at) => Ok(known.found.swap_remove(at)),
        None => Err(known.not_found(format!("Hypervisor with ID '{id}' could not be found."))),
    }
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, id: web::Path<String>) -> Answer {
    api.allow(&caller, "os_compute_api:os-hypervisors:show")?;
    let query = Query::of(&request)?;
    if version.at_least(53) {
        query.only(&["with_servers"])?;
    }
    let with_servers = version.at_least(53) && query.get("with_servers").map_or(Ok(false), strict_bool)?;
    let hypervisor = one(&api, &id, version).await?;
    let mut view = detailed(&api, &hypervisor, version);
    if with_servers {
        add_servers(&api, &mut view, &hypervisor, version).await?;
    }
    ok(&json!({"hypervisor": view}))
}

/// Below 2.88: the summary with the uptime, which [`show`] has from 2.88 on.
async fn uptime(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, id: web::Path<String>) -> Answer {
    if version.at_least(88) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-hypervisors:uptime")?;
    let hypervisor = one(&api, &id, version).await?;
    let Some(uptime) = view::uptime(&api, &hypervisor) else {
        return Err(bad_request(format!("Compute service of {} is unavailable at this time.", hypervisor.node.host)));
    };
    let mut view = summary(&api, &hypervisor, version);
    view["uptime"] = json!(uptime);
    ok(&json!({"hypervisor": view}))
}

/// Below 2.53.
async fn search(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, pattern: web::Path<String>) -> Answer {
    if version.at_least(53) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-hypervisors:search")?;
    let found = matching(all(&api).await, &pattern)?;
    ok(&json!({"hypervisors": found.iter().map(|hypervisor| summary(&api, hypervisor, version)).collect::<Vec<_>>()}))
}

/// Below 2.53.
async fn servers(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, pattern: web::Path<String>) -> Answer {
    if version.at_least(53) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-hypervisors:servers")?;
    let mut views = Vec::new();
    for hypervisor in matching(all(&api).await, &pattern)? {
        let mut view = summary(&api, &hypervisor, version);
        add_servers(&api, &mut view, &hypervisor, version).await?;
        views.push(view);
    }
    ok(&json!({"hypervisors": views}))
}

/// Below 2.88. Answers with sums over the enabled hosts.
async fn statistics(caller: Caller, version: ApiVersion, api: web::Data<Catalog>) -> Answer {
    if version.at_least(88) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-hypervisors:statistics")?;
    let enabled: Vec<Hypervisor> = all(&api).await.found.into_iter().filter(|hypervisor| !hypervisor.service.disabled).collect();
    ok(&json!({"hypervisor_statistics": view::sums(&enabled)}))
}
