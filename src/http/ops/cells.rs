//! `/ops/v1/cells`: all cells with their health, the sums over their hosts, and the hosts unless the caller leaves them out; and whether
//! a cell takes new servers.

use actix_web::{HttpResponse, web};
use chrono::{DateTime, SecondsFormat, Utc};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::hosts::{Hosted, Rooms, Sums, hosted, of_cell, sums, zone};
use super::unknown::no_cell;
use super::{Catalog, Operators, Shared};
use crate::actors::cell::{CellHandle, CellStanding};
use crate::db::DbError;
use crate::domain::cell_mapping::{CELL0, CellMappingChange};
use crate::http::auth::Caller;
use crate::http::call::Call;
use crate::http::compute::answer::{Answer, bad_request, not_found};
use crate::http::compute::catalog::Heard;
use crate::http::error::ApiError;
use crate::http::json::Json;

/// The form of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// False for cells without the list of their hosts.
    #[serde(default = "yes")]
    hosts: bool,
}

fn yes() -> bool {
    true
}

pub async fn list(Call { request, api: operators, catalog, caller, .. }: Call<Operators>, query: web::Query<ListQuery>) -> Answer {
    catalog.allow(&caller, "ops:cells")?;
    operators.recent.answer(&request, described(&catalog, query.hosts)).await
}

async fn described(catalog: &Catalog, with_hosts: bool) -> Result<Value, ApiError> {
    let mappings = catalog.api.cell_mappings().await?;
    let rooms = Rooms::read(catalog).await;
    let describe = |of: &CellHandle, error: Option<&DbError>, sums: &Sums| {
        let disabled = mappings.iter().any(|mapping| mapping.uuid == of.uuid && mapping.disabled);
        let mut description = cell(of, error, disabled);
        sums.describe(&mut description);
        description
    };
    if !with_hosts {
        let counted = join_all(catalog.cells.iter().map(|of| sums(catalog, of, &rooms))).await;
        let cells = catalog.cells.iter().zip(&counted).map(|(of, (sums, error))| describe(of, error.as_ref(), sums));
        return Ok(json!({ "cells": cells.collect::<Vec<_>>() }));
    }
    let memberships = catalog.api.memberships().await?;
    let whole = |heard: &Heard<'_, Vec<Hosted>>| {
        let hosts = of_cell(catalog, heard.cell, heard.answer.as_deref().ok(), &rooms);
        let mut description = describe(heard.cell, heard.answer.as_ref().err(), &Sums::of(&hosts));
        description["hosts"] = hosts.iter().map(|host| host.json(zone(catalog, &memberships, host.name()))).collect();
        description
    };
    let cells: Vec<Value> = catalog.ask_cells(hosted).await.iter().map(whole).collect();
    Ok(json!({ "cells": cells }))
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
    let mapping = catalog.api.cell_mappings().await?.into_iter().find(|mapping| mapping.name == *name);
    let mapping = mapping.ok_or_else(|| not_found(no_cell(&catalog, &name)))?;
    if mapping.uuid == CELL0 {
        return Err(bad_request(format!("{name} has no hosts: no server is ever placed in it.")));
    }
    let change = CellMappingChange { disabled: Some(body.disabled), ..CellMappingChange::default() };
    catalog.api.update_cell_mapping(mapping.uuid, change).await?;
    let cell = json!({"uuid": mapping.uuid, "name": mapping.name, "disabled": body.disabled});
    Ok(HttpResponse::Ok().json(json!({ "cell": cell })))
}

/// Describes a cell. A cell that did not answer in time may not count as down yet, but operators should see the reason.
fn cell(cell: &CellHandle, error: Option<&DbError>, disabled: bool) -> Value {
    let report = cell.health.report();
    json!({
        "uuid": cell.uuid,
        "name": cell.name,
        "health": health(report.standing),
        "since": instant(report.since),
        "reason": report.reason.map(|reason| reason.to_string()).or_else(|| error.map(ToString::to_string)),
        "disabled": disabled,
    })
}

/// Returns the text for a cell's standing.
pub(super) fn health(standing: CellStanding) -> &'static str {
    match standing {
        CellStanding::Up => "up",
        CellStanding::Down => "down",
        CellStanding::Probing => "probing",
    }
}

/// Formats a moment for these resources.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}
