//! `/os-hypervisors`: each host's resources, their usage, and the servers on the host.

mod view;

use std::collections::BTreeMap;
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
use crate::actors::cell::CellHandle;
use crate::cell_registry::SilentCell;
use crate::domain::compute_host::{HostRecord, WhichHosts};
use crate::domain::compute_node::ComputeNode;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::reason;
use crate::domain::service::Service;
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

/// A compute node with its service, as its cell's records name them.
struct Listed<'a> {
    cell: &'a CellHandle,
    record: HostRecord,
}

impl Listed<'_> {
    /// Returns the id that clients of this version see.
    fn id(&self, version: ApiVersion) -> Value {
        id_of(&self.record.node.row, version)
    }
}

/// A compute node with its service and its host's own word.
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
        id_of(&self.node, version)
    }
}

fn id_of(node: &ComputeNode, version: ApiVersion) -> Value {
    if version.at_least(53) { json!(node.uuid) } else { json!(node.id) }
}

/// All hypervisors that the cells reported.
struct Listing<'a> {
    /// Ordered by cell and id.
    nodes: Vec<Listed<'a>>,
    /// The cells whose compute nodes are missing.
    silent: Vec<SilentCell>,
}

impl Listing<'_> {
    /// Makes a 404, or a 503 if a silent cell may have the hypervisor.
    fn not_found(&self, message: String) -> ApiError {
        match self.silent.first() {
            None => not_found(message),
            Some(cell) => unavailable(reason!("{message} Not every cell answers: {}.", cell.reason)),
        }
    }
}

/// Returns all compute nodes that have a service.
async fn all(api: &Catalog) -> Listing<'_> {
    let answers = api.gather_named(async |cell| Ok(vec![cell.host_records(WhichHosts::All).await?])).await;
    let mut nodes = Vec::new();
    for (cell, mut records) in answers.rows {
        records.retain(|record| record.service.uuid == record.node.row.service_id);
        records.sort_by_key(|record| record.node.row.id);
        nodes.extend(records.into_iter().map(|record| Listed { cell, record }));
    }
    Listing { nodes, silent: answers.silent }
}

/// Returns these nodes with what the cells know of their services' signs of life and with their hosts' present claims, or with the last counted
/// usage of a host that does not answer. A node whose service or cell has gone meanwhile is left out.
async fn looked_at<'a>(api: &Catalog, listed: Vec<Listed<'a>>) -> Vec<Hypervisor<'a>> {
    let by_cell = listed.chunk_by(|one, next| std::ptr::eq(one.cell, next.cell)).map(|here| async move {
        let ids = here.iter().map(|listed| listed.record.service.uuid).collect();
        let services = api.ask(here[0].cell, |db| db.services_with(ids)).await;
        let services = services.inspect_err(|error| {
            log::warn!(cell = here[0].cell.name.as_str(); "hypervisors of a cell are left out of an answer: {error}");
        });
        services.unwrap_or_default().into_iter().map(|service| (service.uuid, service)).collect::<BTreeMap<Uuid, Service>>()
    });
    let mut services: BTreeMap<Uuid, Service> = join_all(by_cell).await.into_iter().flatten().collect();
    let questions = listed.into_iter().filter_map(|Listed { cell, record }| {
        let service = services.remove(&record.service.uuid)?;
        Some(async move {
            let mut hypervisor = Hypervisor { cell, node: record.node.row.clone(), service, up_since: None };
            ask_host(&mut hypervisor).await;
            hypervisor
        })
    });
    join_all(questions).await
}

/// Returns the compute node of a cell's host, with the usage of its claims; none if the host has no compute node.
pub(super) async fn node_of(api: &Catalog, cell: &CellHandle, host: &str) -> Result<Option<ComputeNode>, ApiError> {
    let records = api.ask(cell, |db| db.host_records(WhichHosts::Named(host.to_owned()))).await?;
    let listed = records.into_iter().take(1).map(|record| Listed { cell, record }).collect();
    Ok(looked_at(api, listed).await.pop().map(|hypervisor| hypervisor.node))
}

/// Asks the host since when it runs, and for its claims. The usage is that of the claims, because they include the room that a move keeps
/// at its source. One cell's records do not (INVARIANTS D4).
async fn ask_host(hypervisor: &mut Hypervisor<'_>) {
    let answer = hypervisor.cell.hosts.query(&hypervisor.node.host, HostQuery::Summary, HOST_PATIENCE).await;
    let Ok(HostAnswer::Summary(summary)) = answer else { return };
    hypervisor.up_since = summary.up_since;
    let narrow = |amount: i64| i32::try_from(amount).unwrap_or(i32::MAX);
    let (node, claimed) = (&mut hypervisor.node, summary.claimed);
    (node.vcpus_used, node.memory_mb_used, node.local_gb_used) = (narrow(claimed.vcpu), narrow(claimed.memory_mb), narrow(claimed.disk_gb));
    node.running_vms = i32::try_from(summary.guests).unwrap_or(i32::MAX);
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
    let listing = all(api).await;
    let page = query.page(api.max_limit)?;
    let nodes = match pattern {
        Some(pattern) => matching(listing, pattern)?,
        None if paged => cut(&page, listing, version)?,
        None => listing.nodes,
    };
    let hypervisors = looked_at(api, nodes).await;
    let mut views = Vec::with_capacity(hypervisors.len());
    for hypervisor in &hypervisors {
        let mut view = if whole { detailed(api, hypervisor, version) } else { summary(api, hypervisor, version) };
        if with_servers {
            add_servers(api, &mut view, hypervisor, version).await?;
        }
        views.push(view);
    }
    let mut body = json!({"hypervisors": views});
    let collection = if whole { "os-hypervisors/detail" } else { "os-hypervisors" };
    let last = hypervisors.last().map(|hypervisor| text(&hypervisor.id(version)));
    if let Some(next) = page.next(request, &query, collection, hypervisors.len(), last).filter(|_| paged) {
        body["hypervisors_links"] = next;
    }
    ok(&body)
}

fn cut<'a>(page: &Page, listing: Listing<'a>, version: ApiVersion) -> Result<Vec<Listed<'a>>, ApiError> {
    let marker = page.marker.as_deref().unwrap_or_default();
    let cut = page.cut_heard(listing.nodes, |listed| text(&listed.id(version)), &listing.silent);
    cut.map_err(|error| if listing.silent.is_empty() { bad_request(format!("marker [{marker}] not found")) } else { error })
}

fn text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns the hypervisors whose name contains the pattern. 404 if there are none.
fn matching<'a>(mut listing: Listing<'a>, pattern: &str) -> Result<Vec<Listed<'a>>, ApiError> {
    let part = pattern.to_lowercase();
    listing.nodes.retain(|listed| listed.record.node.row.hypervisor_hostname.to_lowercase().contains(&part));
    if listing.nodes.is_empty() {
        return Err(listing.not_found(format!("No hypervisor matching '{pattern}' could be found.")));
    }
    Ok(listing.nodes)
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
    let is_named = |listed: &Listed| match version.at_least(53) {
        true => uuid == Some(listed.record.node.row.uuid),
        false => id.parse() == Ok(listed.record.node.row.id),
    };
    let mut listing = all(api).await;
    let message = format!("Hypervisor with ID '{id}' could not be found.");
    let Some(at) = listing.nodes.iter().position(is_named) else { return Err(listing.not_found(message)) };
    match looked_at(api, vec![listing.nodes.swap_remove(at)]).await.pop() {
        Some(hypervisor) => Ok(hypervisor),
        // Gone meanwhile, or its cell is silent now: the cells are asked again.
        None => Err(all(api).await.not_found(message)),
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
    let hypervisors = looked_at(&api, matching(all(&api).await, &pattern)?).await;
    ok(&json!({"hypervisors": hypervisors.iter().map(|hypervisor| summary(&api, hypervisor, version)).collect::<Vec<_>>()}))
}

/// Below 2.53.
async fn servers(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, pattern: web::Path<String>) -> Answer {
    if version.at_least(53) {
        return Err(no_such_resource());
    }
    api.allow(&caller, "os_compute_api:os-hypervisors:servers")?;
    let mut views = Vec::new();
    for hypervisor in looked_at(&api, matching(all(&api).await, &pattern)?).await {
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
    let mut listing = all(&api).await;
    listing.nodes.retain(|listed| !listed.record.service.disabled);
    ok(&json!({"hypervisor_statistics": view::sums(&looked_at(&api, listing.nodes).await)}))
}
