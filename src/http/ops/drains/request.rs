//! The body of a new drain, checked against the cells, hosts, zones and flavors that exist.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::destinations::{CROSS_CELL, flavor_called};
use super::super::unknown::{near_host, no_cell};
use super::Catalog;
use crate::actors::cell::CellHandle;
use crate::db::DbError;
use crate::domain::drain::{DEFAULT_IN_FLIGHT, Destination, DrainPlan, MAX_IN_FLIGHT};
use crate::domain::microversion::COMPUTE;
use crate::domain::nearest::did_you_mean;
use crate::http::auth::Caller;
use crate::http::compute::answer::{bad_request, conflict, forbidden};
use crate::http::error::ApiError;
use crate::http::json::Document;
use crate::http::microversion::ApiVersion;
use crate::http::schema::{self, Schema};
use crate::saga::world::{CELL0, World};

/// The rule by which users confirm moves.
const CONFIRM: &str = "os_compute_api:servers:confirm_resize";

pub(in crate::http::ops) static BODY: Schema = Schema::fixed(|_| {
    let fields = json!({
        "host": schema::host(),
        "cell": schema::name(),
        "to_cell": schema::name(),
        "to_cells": {"type": "array", "items": schema::name(), "minItems": 1, "uniqueItems": true},
        "to_zone": schema::name(),
        "flavor_map": {"type": "object", "additionalProperties": schema::name(), "maxProperties": 1000},
        "max_in_flight": {"type": "integer", "minimum": 1, "maximum": MAX_IN_FLIGHT},
        "confirm": {"type": "boolean"},
        "dry_run": {"type": "boolean"},
    });
    schema::object(&fields, &[])
});

/// A checked request for a drain.
pub(super) struct DrainRequest {
    pub plan: DrainPlan,
    pub dry_run: bool,
}

/// Checks the body.
pub(super) async fn read(caller: &Caller, body: &Document, catalog: &Catalog, world: &World) -> Result<DrainRequest, ApiError> {
    BODY.check(ApiVersion(COMPUTE.min), body).await?;
    let (cell, hosts, whole_cell) = source(body, catalog).await?;
    let to = destination(body, catalog, &cell.name, whole_cell).await?;
    let may_leave_cell = catalog.may(caller, CROSS_CELL);
    if !may_leave_cell && !to.may_include_cell(&cell.name) {
        return Err(forbidden(format!("Policy doesn't allow {CROSS_CELL} to be performed, and {to} is another cell's.")));
    }
    let plan = DrainPlan {
        cell: cell.name.clone(),
        hosts,
        whole_cell,
        to,
        flavors: flavors(body, world).await?,
        max_in_flight: body["max_in_flight"].as_u64().and_then(|most| u32::try_from(most).ok()).unwrap_or(DEFAULT_IN_FLIGHT),
        confirm: body["confirm"] == true,
        confirm_others: body["confirm"] == true && catalog.may(caller, CONFIRM),
        may_leave_cell,
        caller: caller.0.clone(),
    };
    Ok(DrainRequest { plan, dry_run: body["dry_run"] == true })
}

/// Returns the cell and the hosts to empty, and whether they are the whole cell.
async fn source<'a>(body: &Value, catalog: &'a Catalog) -> Result<(&'a CellHandle, Vec<String>, bool), ApiError> {
    match (body["host"].as_str(), body["cell"].as_str()) {
        (Some(host), None) => {
            let cell = catalog.cell_of_host(host).await.map_err(|error| match error {
                DbError::NotFound(_) => bad_request(format!("Compute host {host} could not be found.{}", near_host(catalog, host))),
                other => other.into(),
            })?;
            Ok((cell, vec![host.to_owned()], false))
        }
        (None, Some(name)) => {
            let cell = cell_called(catalog, name)?;
            let hosts: Vec<String> = catalog.api.hosts_of_cell(cell.uuid).await?.into_iter().map(|mapping| mapping.host).collect();
            if hosts.is_empty() {
                return Err(conflict(format!("Cell {name} has no hosts.")));
            }
            Ok((cell, hosts, true))
        }
        _ => Err(bad_request("Name what is to be drained: either a host or a cell.")),
    }
}

/// Returns where the servers go: by default, other hosts of the drained host's cell.
async fn destination(body: &Value, catalog: &Catalog, own: &str, whole_cell: bool) -> Result<Destination, ApiError> {
    let to = match (body["to_cell"].as_str(), body["to_cells"].as_array(), body["to_zone"].as_str()) {
        (Some(name), None, None) => Destination::Cell(cell_called(catalog, name)?.name.clone()),
        (None, Some(names), None) => cells_called(catalog, names)?,
        (None, None, Some(name)) => zone_called(catalog, name).await?,
        (None, None, None) if whole_cell => return Err(bad_request("A cell's drain needs a destination: to_cell or to_zone.")),
        (None, None, None) => Destination::Cell(own.to_owned()),
        _ => return Err(bad_request("Name one destination: either to_cell, to_cells or to_zone.")),
    };
    let is_own = !matches!(to, Destination::Zone { .. }) && to.may_include_cell(own);
    match whole_cell && is_own {
        true => Err(bad_request(format!("Cell {own} cannot be drained to itself."))),
        false => Ok(to),
    }
}

fn cells_called(catalog: &Catalog, names: &[Value]) -> Result<Destination, ApiError> {
    let cells = names.iter().filter_map(Value::as_str).map(|name| Ok(cell_called(catalog, name)?.name.clone()));
    let mut cells: Vec<String> = cells.collect::<Result<_, ApiError>>()?;
    match cells.as_mut_slice() {
        [cell] => Ok(Destination::Cell(std::mem::take(cell))),
        _ => Ok(Destination::Cells(cells)),
    }
}

fn cell_called<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a CellHandle, ApiError> {
    let cell = catalog.cells.iter().find(|cell| cell.name == name && cell.name != CELL0);
    cell.ok_or_else(|| bad_request(no_cell(catalog, name)))
}

async fn zone_called(catalog: &Catalog, name: &str) -> Result<Destination, ApiError> {
    let is_default = name == catalog.default_zone;
    let aggregates = catalog.api.aggregates().await?;
    let zones = || aggregates.iter().filter_map(|aggregate| aggregate.availability_zone());
    if !is_default && zones().all(|zone| zone != name) {
        let near = did_you_mean(name, zones().chain([catalog.default_zone.as_str()]));
        return Err(bad_request(format!("The requested availability zone {name} is not available.{near}")));
    }
    Ok(Destination::Zone { name: name.to_owned(), is_default })
}

/// Returns the ids of the mapped flavors, which the body names by id or name.
async fn flavors(body: &Value, world: &World) -> Result<BTreeMap<String, String>, ApiError> {
    let mut flavors = BTreeMap::new();
    for (old, new) in body["flavor_map"].as_object().into_iter().flatten() {
        let old = flavor_called(world, old).await?;
        let new = flavor_called(world, new.as_str().unwrap_or_default()).await?;
        if old.id == new.id {
            return Err(bad_request(format!("Flavor {} is mapped to itself.", old.name)));
        }
        if flavors.insert(old.id, new.id).is_some() {
            return Err(bad_request(format!("Flavor {} is mapped twice.", old.name)));
        }
    }
    Ok(flavors)
}
