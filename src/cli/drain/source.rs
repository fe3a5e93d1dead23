//! The words of `cellshift drain` that name a host, a cell or a zone, and the request that they make.

use std::collections::BTreeSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::Drain;
use crate::cli::Failure;
use crate::cli::cells::BRIEFLY;
use crate::cli::output::{List, entries, text};
use crate::cli::words::{in_options, there_are};
use crate::client::{Client, ClientError, OPERATORS};
use crate::domain::nearest::did_you_mean;
use crate::saga::world::CELL0;

/// The options that set the fields of a drain's request.
const OPTIONS: [(&str, &str); 7] = [
    ("to_cell or to_zone", "--to"),
    ("to_cells", "--to"),
    ("to_cell", "--to"),
    ("to_zone", "--to"),
    ("flavor_map", "--flavor-map"),
    ("max_in_flight", "--max-in-flight"),
    ("dry_run", "--dry-run"),
];

/// The host or the cell that a drain empties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Host(String),
    Cell(String),
}

impl Source {
    /// Returns the host or the cell with this name.
    pub(super) async fn called(client: &Client, name: &str, cells: &[String]) -> Result<Source, Failure> {
        let is_cell = cells.iter().any(|cell| cell == name);
        match (is_host(client, name).await?, is_cell) {
            (true, true) => Err(format!("{name:?} is both a host and a cell: use POST /ops/v1/drains").into()),
            (true, false) => Ok(Source::Host(name.to_owned())),
            (false, true) => Ok(Source::Cell(name.to_owned())),
            (false, false) => {
                let hosts = hosts(client).await?;
                let near = did_you_mean(name, cells.iter().chain(&hosts).map(String::as_str));
                Err(format!("no host and no cell is called {name:?}.{near}").into())
            }
        }
    }
}

/// Where servers shall go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Cell(String),
    Cells(Vec<String>),
    Zone(String),
}

impl Target {
    /// Returns the cell, the cells or, if no cell is called so, the availability zone that `--to` names. Without a list of zones, the service
    /// judges.
    pub(super) fn called(name: &str, cells: &[String], zones: Option<&[String]>) -> Result<Target, Failure> {
        let is_cell = |name: &str| cells.iter().any(|cell| cell == name);
        if is_cell(name) {
            return Ok(Target::Cell(name.to_owned()));
        }
        let is_zone = zones.is_some_and(|zones| zones.iter().any(|zone| zone == name));
        if name.contains(',') && !is_zone {
            let names: BTreeSet<&str> = name.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            return match names.iter().find(|name| !is_cell(name)) {
                None => Ok(Target::Cells(names.into_iter().map(str::to_owned).collect())),
                Some(unknown) => {
                    let names = || cells.iter().map(String::as_str);
                    Err(format!("--to: no cell is called {unknown:?}.{}{}", did_you_mean(unknown, names()), there_are(names())).into())
                }
            };
        }
        match zones {
            Some(zones) if zones.iter().all(|zone| zone != name) => {
                let names = || cells.iter().chain(zones).map(String::as_str);
                let near = did_you_mean(name, names());
                Err(format!("--to: no cell and no availability zone is called {name:?}.{near}{}", there_are(names())).into())
            }
            _ => Ok(Target::Zone(name.to_owned())),
        }
    }
}

/// Returns the names of the cells that have hosts.
pub(super) async fn cells(client: &Client) -> Result<Vec<String>, Failure> {
    let answer = client.get(OPERATORS, BRIEFLY).await?;
    let names = entries(&answer, "cells").iter().map(|cell| text(cell, "name")).filter(|name| *name != CELL0);
    Ok(names.map(str::to_owned).collect())
}

/// Returns the names of the availability zones; none if the caller may not list them.
pub(super) async fn zones(client: &Client) -> Option<Vec<String>> {
    let answer = client.get("compute", "/os-availability-zone").await.ok()?;
    Some(entries(&answer, "availabilityZoneInfo").iter().map(|zone| text(zone, "zoneName").to_owned()).collect())
}

/// Returns the names of all hosts.
async fn hosts(client: &Client) -> Result<Vec<String>, Failure> {
    let list = List { path: "/hosts", key: "hosts", id: "name", filters: Vec::new() };
    let answer = list.read(client, Some(u32::MAX)).await?;
    Ok(entries(&answer, "hosts").iter().map(|host| text(host, "name").to_owned()).collect())
}

/// True if a host has this name.
async fn is_host(client: &Client, name: &str) -> Result<bool, Failure> {
    match client.get(OPERATORS, &format!("/hosts/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))).await {
        Ok(_) => Ok(true),
        Err(ClientError::Refused { status: 404, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes the request of a drain.
pub(super) fn body(drain: &Drain, source: &Source, target: Option<&Target>) -> Result<Value, Failure> {
    let mut body = match source {
        Source::Host(host) => json!({ "host": host }),
        Source::Cell(cell) => json!({ "cell": cell }),
    };
    match (source, target) {
        (_, Some(Target::Cell(cell))) => body["to_cell"] = json!(cell),
        (_, Some(Target::Cells(cells))) => body["to_cells"] = json!(cells),
        (_, Some(Target::Zone(zone))) => body["to_zone"] = json!(zone),
        (Source::Cell(cell), None) => return Err(format!("say where the servers of cell {cell} shall go: --to CELL[,CELL]|AZ").into()),
        (Source::Host(_), None) => {}
    }
    if let Some(most) = drain.max_in_flight {
        body["max_in_flight"] = json!(most);
    }
    let flavors: Map<String, Value> = drain.flavor_map.iter().map(|(old, new)| (old.clone(), json!(new))).collect();
    body["flavor_map"] = flavors.into();
    body["confirm"] = json!(drain.confirm);
    body["dry_run"] = json!(drain.dry_run);
    Ok(body)
}

/// Returns the reason of a refused drain in the words of the command line.
pub(super) fn refused(error: ClientError) -> Failure {
    match error {
        ClientError::Refused { request, status, message } => {
            ClientError::Refused { request, status, message: in_options(&message, &OPTIONS) }.into()
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn targets_are_cells_before_zones() {
        let (cells, zones) = (names(&["cell1", "cell2"]), names(&["cell2", "east"]));
        let target = |name: &str| Target::called(name, &cells, Some(&zones)).map_err(|failure| failure.to_string());
        assert_eq!(target("cell2"), Ok(Target::Cell("cell2".into())));
        assert_eq!(target("east"), Ok(Target::Zone("east".into())));
        let unknown = target("eest").unwrap_err();
        assert_eq!(unknown, "--to: no cell and no availability zone is called \"eest\". Did you mean east? There are: cell1, cell2, east");
        assert_eq!(Target::called("moon", &cells, None).ok(), Some(Target::Zone("moon".into())), "the service judges");
    }

    #[test]
    fn several_targets_are_cells() {
        let (cells, zones) = (names(&["cell1", "cell2"]), names(&["north,south"]));
        let target = |name: &str| Target::called(name, &cells, Some(&zones)).map_err(|failure| failure.to_string());
        assert_eq!(target("cell2, cell1,cell2"), Ok(Target::Cells(names(&["cell1", "cell2"]))));
        assert_eq!(target("north,south"), Ok(Target::Zone("north,south".into())));
        assert_eq!(target("cell1,cel2").unwrap_err(), "--to: no cell is called \"cel2\". Did you mean cell2? There are: cell1, cell2");
    }

    #[test]
    fn refusals_name_the_options() {
        let refusal = ClientError::Refused { request: "POST /drains".into(), status: 400, message: "flavor_map is wrong.".into() };
        assert_eq!(refused(refusal).to_string(), "--flavor-map is wrong. (POST /drains was answered with 400)");
    }
}
