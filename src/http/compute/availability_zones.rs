//! `/os-availability-zone`: the zones, and for operators the services in them.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::{HttpRequest, web};
use serde_json::{Value, json};

use super::answer::{Answer, moment_or_null, ok};
use super::catalog::{Catalog, Gathered};
use super::query::Query;
use super::zones::{INTERNAL_ZONE, Zones};
use crate::domain::service::Service;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::microversion::ApiVersion;

/// Registers this resource's routes.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/os-availability-zone").route(web::get().to(list)))
        .service(web::resource("/os-availability-zone/detail").route(web::get().to(detail)));
}

/// The zones with their services. A zone is available while one of its services is enabled in a cell that answers.
struct Picture {
    available: BTreeMap<String, Vec<Service>>,
    unavailable: BTreeSet<String>,
}

async fn picture(api: &Catalog) -> Result<Picture, ApiError> {
    let zones = Zones::read(api).await?;
    let mut picture = Picture { available: BTreeMap::new(), unavailable: BTreeSet::new() };
    let Gathered { rows, silent } = api.gather_named(|cell| cell.services()).await;
    for (_, service) in rows {
        let zone = zones.of_service(&service).to_owned();
        if service.disabled {
            picture.unavailable.insert(zone);
        } else {
            picture.available.entry(zone).or_default().push(service);
        }
    }
    // For a silent cell only the hosts' names are known, so their zones are listed as unavailable.
    for cell in silent {
        let hosts = api.api.hosts_of_cell(cell.uuid).await?;
        picture.unavailable.extend(hosts.iter().map(|mapping| zones.of_host(&mapping.host).to_owned()));
    }
    picture.unavailable.retain(|zone| !picture.available.contains_key(zone));
    Ok(picture)
}

async fn list(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-availability-zone:list")?;
    check_query(version, &request)?;
    let picture = picture(&api).await?;
    let available = picture.available.keys().map(|zone| (zone, true));
    let all = available.chain(picture.unavailable.iter().map(|zone| (zone, false))).filter(|(zone, _)| *zone != INTERNAL_ZONE);
    let views: Vec<Value> = all.map(|(zone, available)| view(zone, available, Value::Null)).collect();
    ok(&json!({"availabilityZoneInfo": views}))
}

async fn detail(caller: Caller, version: ApiVersion, api: web::Data<Catalog>, request: HttpRequest) -> Answer {
    api.allow(&caller, "os_compute_api:os-availability-zone:detail")?;
    check_query(version, &request)?;
    let picture = picture(&api).await?;
    let mut views: Vec<Value> = picture.available.iter().map(|(zone, services)| view(zone, true, hosts(&api, services))).collect();
    views.extend(picture.unavailable.iter().map(|zone| view(zone, false, Value::Null)));
    ok(&json!({"availabilityZoneInfo": views}))
}

fn check_query(version: ApiVersion, request: &HttpRequest) -> Result<(), ApiError> {
    if version.at_least(102) { Query::of(request)?.only(&[]) } else { Ok(()) }
}

fn hosts(api: &Catalog, services: &[Service]) -> Value {
    let mut hosts: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    for service in services {
        let seen = service.last_seen_up.or(service.updated_at);
        let state = json!({"available": api.is_up(service), "active": !service.disabled, "updated_at": moment_or_null(seen)});
        hosts.entry(&service.host).or_default().insert(&service.binary, state);
    }
    json!(hosts)
}

fn view(zone: &str, available: bool, hosts: Value) -> Value {
    json!({"zoneName": zone, "zoneState": {"available": available}, "hosts": hosts})
}
