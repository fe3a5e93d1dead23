//! Port following: a server whose port was deleted at the network service gives up the interface, and with it what the port had of its host:
//! its virtual function and its share of the network.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{PeriodicParts, begin_due, owner_of};
use crate::domain::instance::Instance;
use crate::saga::context::{DetachInterfaceRequest, INTERFACES_CHANGE_IN, Place, Request};
use crate::saga::error::StepError;
use crate::saga::world::CellAccess;

/// Detaches the interfaces of a cell's servers whose ports are gone.
pub async fn follow(parts: &PeriodicParts, name: &str) {
    let Some(cell) = parts.world.cells.get(name) else { return };
    match lost(parts, cell).await {
        Ok(lost) => {
            for (server, port) in lost {
                detach(parts, name, server, port).await;
            }
        }
        Err(error) => log::warn!(cell = name; "ports that are gone are looked for later: {error}"),
    }
}

/// Returns the servers with interfaces whose ports are gone, each with one of them: the next look finds the others.
async fn lost(parts: &PeriodicParts, cell: &CellAccess) -> Result<Vec<(Instance, Uuid)>, StepError> {
    // The interfaces are read first: a port that is attached meanwhile is missing among neither.
    let interfaces = cell.db.interfaces_at_rest(INTERFACES_CHANGE_IN).await?;
    let ports: BTreeSet<Uuid> = interfaces.iter().map(|(port, _)| *port).collect();
    let holders = parts.world.network.holders(ports.into_iter().collect()).await?;
    let lost: BTreeMap<Uuid, Uuid> =
        interfaces.into_iter().filter(|(port, server)| holders.get(port) != Some(server)).map(|(port, server)| (server, port)).collect();
    let servers = cell.db.instances_of(lost.keys().copied().collect()).await?;
    Ok(servers.into_iter().filter_map(|server| lost.get(&server.uuid).map(|port| (server.clone(), *port))).collect())
}

async fn detach(parts: &PeriodicParts, cell: &str, server: Instance, port: Uuid) {
    let Some(host) = server.host.clone() else { return };
    let here = Place { cell: cell.to_owned(), node: host.clone(), host, provider: Uuid::nil(), availability_zone: None };
    // A host that is down cannot do it. It is asked when it is back.
    if !matches!(parts.world.is_up(&here).await, Ok(true)) {
        return;
    }
    let request = Request::DetachInterface(DetachInterfaceRequest { port_id: port });
    let begins = format!("port {port} is gone, and its interface leaves the server");
    let waits = format!("the interface of port {port}, which is gone, stays for now");
    begin_due(parts, owner_of(&parts.world, &server), server.uuid, request, [&begins, &waits]).await;
}
