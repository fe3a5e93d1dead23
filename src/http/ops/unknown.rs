//! Names that nothing has: answers ask for the nearest one, because their readers are operators, who may know all cells and hosts.

use super::Catalog;
use crate::domain::nearest::did_you_mean;
use crate::saga::world::CELL0;

/// Says that no cell has this name, and which names there are.
pub(super) fn no_cell(catalog: &Catalog, name: &str) -> String {
    let names: Vec<&str> = catalog.cells.iter().map(|cell| cell.name.as_str()).filter(|name| *name != CELL0).collect();
    let near = did_you_mean(name, names.iter().copied());
    format!("Cell {name} could not be found.{near} There are: {}.", names.join(", "))
}

/// Asks for the host whose name is nearest to this one; empty if none is near.
pub(super) fn near_host(catalog: &Catalog, name: &str) -> String {
    let hosts: Vec<(String, bool)> = catalog.cells.iter().flat_map(|cell| cell.hosts.hosts()).collect();
    did_you_mean(name, hosts.iter().map(|(host, _)| host.as_str()))
}
