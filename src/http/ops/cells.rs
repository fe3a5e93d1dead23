//! `/ops/v1/cells`: all cells with their health and hosts; and whether a cell takes new servers.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Catalog, Shared};
use crate::actors::cell::{CellHandle, Standing};
use crate::db::DbError;
use crate::db::api::cell_mappings::{CELL0, CellMappingChange};
use crate::db::cell::CellDb;
use crate::db::cell::services::Service;
use crate::http::auth::Caller;
use crate::http::compute::answer::{bad_request, not_found};
use crate::http::compute::zones::{COMPUTE, Zones};
use crate::http::error::ApiError;
use crate::http::json::Json;
use crate::services::placement::{Inventory, Provider};

pub async fn list(caller: Caller, catalog: Shared<Catalog>) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:cells")?;
    let zones = Zones::read(&catalog).await?;
    let mappings = catalog.api.cell_mappings().await?;
    let heard = catalog.ask_cells(hosts_of).await;
    let rooms = rooms(&catalog).await;
    let cells: Vec<Value> = heard
        .iter()
        .map(|heard| {
            let disabled = mappings.iter().any(|mapping| mapping.uuid == heard.cell.uuid && mapping.disabled);
            let hosts: Vec<Value> = match &heard.answer {
                Ok(hosts) => hosts.iter().map(|hosted| host(&catalog, &zones, heard.cell, hosted, &rooms)).collect(),
                Err(_) => heard.cell.hosts.hosts().iter().map(|(name, _)| unknown_host(&zones, name)).collect(),
            };
            cell(heard.cell, heard.answer.as_ref().err(), disabled, hosts)
        })
        .collect();
    Ok(HttpResponse::Ok().json(json!({ "cells": cells })))
}

/// The body of `PUT`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellUpdate {
    disabled: bool,
}

/// Answers `PUT`: a disabled cell gets no new servers. Its servers stay, and may move within it.
pub async fn update(
    caller: Caller,
    name: web::Path<String>,
    catalog: Shared<Catalog>,
    body: Json<CellUpdate>,
) -> Result<HttpResponse, ApiError> {
    catalog.allow(&caller, "ops:cells:update")?;
    let known = catalog.api.cell_mappings().await?.into_iter().find(|mapping| mapping.name == *name);
    let mapping = known.ok_or_else(|| not_found(format!("Cell {name} could not be found.")))?;
    if mapping.uuid == CELL0 {
        return Err(bad_request(format!("{name} has no hosts: no server is ever placed in it.")));
    }
    let change = CellMappingChange { disabled: Some(body.disabled), ..CellMappingChange::default() };
    catalog.api.update_cell_mapping(mapping.uuid, change).await?;
    let cell = json!({"uuid": mapping.uuid, "name": mapping.name, "disabled": body.disabled});
    Ok(HttpResponse::Ok().json(json!({ "cell": cell })))
}

/// Returns the cell's compute services, each with the number of servers on its host.
async fn hosts_of(db: &CellDb) -> Result<Vec<(Service, i64)>, DbError> {
    let (services, servers) = (db.services().await?, db.servers_per_host().await?);
    let computing = services.into_iter().filter(|service| service.binary == COMPUTE);
    let hosts: BTreeMap<String, (Service, i64)> = computing
        .map(|service| {
            let count = servers.get(&service.host).copied().unwrap_or(0);
            (service.host.clone(), (service, count))
        })
        .collect();
    Ok(hosts.into_values().collect())
}

/// Returns what each host has and what of it is taken, by the name of its provider. Empty if placement does not answer.
async fn rooms(catalog: &Catalog) -> BTreeMap<String, Value> {
    match tokio::time::timeout(catalog.cell_timeout, catalog.placement.providers()).await {
        Ok(Ok(providers)) => providers.iter().map(|provider| (provider.name.clone(), room(provider))).collect(),
        Ok(Err(error)) => {
            log::warn!("the room on hosts is not known: {error}");
            BTreeMap::new()
        }
        Err(_) => BTreeMap::new(),
    }
}

fn room(provider: &Provider) -> Value {
    let of = |(class, inventory): (&String, &Inventory)| {
        let used = provider.usages.get(class).copied().unwrap_or(0);
        (class.clone(), json!({"capacity": inventory.capacity(), "used": used}))
    };
    provider.inventories.iter().map(of).collect::<serde_json::Map<_, _>>().into()
}

/// Describes a cell. A cell that did not answer in time may not count as down yet, but operators should see the reason.
fn cell(cell: &CellHandle, error: Option<&DbError>, disabled: bool, hosts: Vec<Value>) -> Value {
    let report = cell.health.report();
    json!({
        "uuid": cell.uuid,
        "name": cell.name,
        "health": health(report.standing),
        "since": instant(report.since),
        "reason": report.reason.or_else(|| error.map(ToString::to_string)),
        "disabled": disabled,
        "hosts": hosts,
    })
}

/// Returns the text for a cell's standing.
pub(super) fn health(standing: Standing) -> &'static str {
    match standing {
        Standing::Up => "up",
        Standing::Down => "down",
        Standing::Probing => "probing",
    }
}

fn host(
    catalog: &Catalog,
    zones: &Zones,
    cell: &CellHandle,
    (service, servers): &(Service, i64),
    rooms: &BTreeMap<String, Value>,
) -> Value {
    let up = catalog.is_up(service) && cell.hosts.is_alive(&service.host);
    json!({
        "name": service.host,
        "availability_zone": zones.of_host(&service.host),
        "state": if up { "up" } else { "down" },
        "status": if service.disabled { "disabled" } else { "enabled" },
        "forced_down": service.forced_down,
        "servers": servers,
        "room": rooms.get(&service.host),
    })
}

/// Describes a host whose cell's records cannot be read.
fn unknown_host(zones: &Zones, name: &str) -> Value {
    json!({"name": name, "availability_zone": zones.of_host(name), "state": "unknown", "status": null, "forced_down": null, "servers": null, "room": null})
}

/// Formats a moment for these resources.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}
