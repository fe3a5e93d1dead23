//! `/os-simple-tenant-usage`: the usage of projects over a period.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, web};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{Answer, bad_request, moment, moment_or_null, ok};
use super::catalog::{Catalog, Gathered};
use super::query::{Page, Query, parse_moment};
use super::quota_usage::tell_missing;
use crate::cell_registry::SilentCell;
use crate::db::DbError;
use crate::domain::instance::Instance;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-simple-tenant-usage").route(web::get().to(list)))
        .service(web::resource("/os-simple-tenant-usage/{project}").route(web::get().to(show)));
}

/// The period of a report.
struct Period {
    start: DateTime<Utc>,
    stop: DateTime<Utc>,
}

impl Period {
    /// Parses the period. Both ends default to now; the end is never in the future.
    fn of(query: &Query, now: DateTime<Utc>) -> Result<Period, ApiError> {
        let end = |key: &str| match query.get(key) {
            None | Some("") => Ok(now),
            Some(text) => parse_moment(text).ok_or_else(|| bad_request("Datetime is in invalid format")),
        };
        let (start, stop) = (end("start")?, end("end")?);
        // Without start and stop the period is empty, which Nova answers with no usage.
        if start > stop || (start == stop && query.get("start").is_some_and(|text| !text.is_empty())) {
            return Err(bad_request("Invalid start time. The start time cannot occur after the end time."));
        }
        Ok(Period { start, stop: stop.min(now) })
    }

    /// Returns the part of the period in which the server existed.
    fn share(&self, server: &Instance) -> TimeDelta {
        let Some(launched) = server.launched_at else { return TimeDelta::zero() };
        let stop = server.terminated_at.map_or(self.stop, |ended| ended.min(self.stop));
        (stop - launched.max(self.start)).max(TimeDelta::zero())
    }
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-simple-tenant-usage:list")?;
    let query = checked(&request, version, &["start", "end", "detailed"])?;
    let period = Period::of(&query, api.env.now())?;
    let page = page_of(&api, &query, version)?;
    let (servers, missing) = servers(&api, &period, None).await?;
    let servers = cut(&api, &page, servers, &missing, None).await?;
    let detailed = query.get("detailed") == Some("1");
    let usages: Vec<Value> = reports(&api, &period, &servers, detailed).into_values().collect();
    let mut body = json!({"tenant_usages": usages});
    if let Some(next) = next(&page, &request, &query, "os-simple-tenant-usage", &servers, version) {
        body["tenant_usages_links"] = next;
    }
    tell_missing(ok(&body), &names(missing))
}

async fn show(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest, project: web::Path<String>) -> Answer {
    api.allow_on_project(&caller, "os_compute_api:os-simple-tenant-usage:show", &project)?;
    let query = checked(&request, version, &["start", "end"])?;
    let period = Period::of(&query, api.env.now())?;
    let page = page_of(&api, &query, version)?;
    let (servers, missing) = servers(&api, &period, Some(&project)).await?;
    let servers = cut(&api, &page, servers, &missing, Some(&project)).await?;
    let usage = reports(&api, &period, &servers, true).remove(project.as_str()).unwrap_or_else(|| json!({}));
    let mut body = json!({"tenant_usage": usage});
    if let Some(next) = next(&page, &request, &query, &format!("os-simple-tenant-usage/{project}"), &servers, version) {
        body["tenant_usage_links"] = next;
    }
    tell_missing(ok(&body), &names(missing))
}

fn checked(request: &HttpRequest, version: ApiVersion, names: &[&str]) -> Result<Query, ApiError> {
    let query = Query::of(request)?;
    if version.at_least(75) {
        query.only(&[names, &["limit", "marker"]].concat())?;
    }
    Ok(query)
}

/// Reports have pages of servers from 2.40 on.
fn page_of(api: &Catalog, query: &Query, version: ApiVersion) -> Result<Page, ApiError> {
    if version.at_least(40) { query.page(api.max_limit) } else { Ok(Page { limit: usize::MAX, marker: None }) }
}

fn next(page: &Page, request: &HttpRequest, query: &Query, path: &str, servers: &[Instance], version: ApiVersion) -> Option<Value> {
    let last = servers.last().map(|server| server.uuid.to_string());
    page.next(request, query, path, servers.len(), last).filter(|_| version.at_least(40))
}

/// Returns the servers of the period, each once, ordered by uuid; and the silent cells that may have more.
async fn servers(api: &Catalog, period: &Period, project: Option<&str>) -> Result<(Vec<Instance>, Vec<SilentCell>), ApiError> {
    let Gathered { rows, mut silent } = api.gather_named(|cell| cell.servers_between(period.start, period.stop, project)).await;
    let mut once: BTreeMap<Uuid, Instance> = BTreeMap::new();
    for (_, server) in rows {
        once.entry(server.uuid).or_insert(server);
    }
    if !silent.is_empty() {
        let used = api.api.cells_of_project(project, true).await?;
        silent.retain(|cell| used.contains(&cell.uuid));
    }
    Ok((once.into_values().collect(), silent))
}

fn names(cells: Vec<SilentCell>) -> Vec<String> {
    cells.into_iter().map(|cell| cell.name).collect()
}

/// Cuts out the page. Servers are ordered by uuid, so the page after a server of a silent cell is known too.
async fn cut(
    api: &Catalog,
    page: &Page,
    servers: Vec<Instance>,
    silent: &[SilentCell],
    project: Option<&str>,
) -> Result<Vec<Instance>, ApiError> {
    let marker = page.marker.as_deref().and_then(|marker| Uuid::parse_str(marker).ok());
    if let Some(marker) = marker
        && !silent.is_empty()
        && servers.iter().all(|server| server.uuid != marker)
    {
        let is_in_silence = match api.api.instance_mapping(marker).await {
            Err(DbError::NotFound(_)) => false,
            mapping => {
                let mapping = mapping?;
                let is_of_project = project.is_none_or(|project| mapping.project_id == project);
                is_of_project && silent.iter().any(|cell| Some(cell.uuid) == mapping.cell_uuid)
            }
        };
        if is_in_silence {
            return Ok(servers.into_iter().filter(|server| server.uuid > marker).take(page.limit).collect());
        }
    }
    page.cut(servers, |server| server.uuid.to_string())
}

/// Makes one report per project.
fn reports(api: &Catalog, period: &Period, servers: &[Instance], detailed: bool) -> BTreeMap<String, Value> {
    let mut by_project: BTreeMap<&str, Vec<&Instance>> = BTreeMap::new();
    for server in servers {
        by_project.entry(&server.project_id).or_default().push(server);
    }
    by_project.into_iter().map(|(project, servers)| (project.to_owned(), report(api, period, project, &servers, detailed))).collect()
}

fn report(api: &Catalog, period: &Period, project: &str, servers: &[&Instance], detailed: bool) -> Value {
    let hours = |server: &Instance| period.share(server).as_seconds_f64() / 3600.0;
    let sum = |amount: fn(&Instance) -> i32| servers.iter().map(|server| f64::from(amount(server)) * hours(server)).sum::<f64>();
    let mut report = json!({
        "tenant_id": project,
        "start": moment(period.start),
        "stop": moment(period.stop),
        "total_hours": servers.iter().map(|server| hours(server)).sum::<f64>(),
        "total_vcpus_usage": sum(|server| server.flavor.vcpus),
        "total_memory_mb_usage": sum(|server| server.flavor.memory_mb),
        "total_local_gb_usage": sum(|server| server.flavor.root_gb + server.flavor.ephemeral_gb),
    });
    if detailed {
        report["server_usages"] = servers.iter().map(|server| one(server, hours(server), api.env.now())).collect();
    }
    report
}

fn one(server: &Instance, hours: f64, now: DateTime<Utc>) -> Value {
    let lived = server.launched_at.map_or(TimeDelta::zero(), |launched| server.terminated_at.unwrap_or(now) - launched);
    json!({
        "instance_id": server.uuid,
        "name": server.display_name,
        "tenant_id": server.project_id,
        "flavor": server.flavor.name,
        "vcpus": server.flavor.vcpus,
        "memory_mb": server.flavor.memory_mb,
        "local_gb": server.flavor.root_gb + server.flavor.ephemeral_gb,
        "hours": hours,
        "uptime": lived.num_seconds(),
        "started_at": moment_or_null(server.launched_at),
        "ended_at": moment_or_null(server.terminated_at),
        "state": if server.terminated_at.is_some() { "terminated" } else { server.vm_state.as_str() },
    })
}
