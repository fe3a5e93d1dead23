//! Power following: a server whose guest went off, or lost its memory, without an operation becomes SHUTOFF; while the server waits for
//! confirm or revert, only its power state changes.

use std::time::Duration;

use futures::future::join_all;
use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::{Expected, InstanceChange};
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::server::{PowerState, VmState};
use crate::env::guard::{Guard, stands};
use crate::saga::machine::Side;
use crate::saga::world::{CellAccess, World};

/// The longest wait for a host's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Follows the guests of a cell: its hosts with servers are asked at once, and the servers whose guests are off are read with one query.
pub(super) async fn follow(world: &World, name: &str) {
    let Some(cell) = world.cells.get(name) else { return };
    let Ok(hosts) = cell.db.hosts_with_servers().await else { return };
    let reports = hosts.iter().map(|host| async move {
        let off = guests_off(world, name, host).await;
        off.into_iter().map(|server| (server, host.as_str())).collect::<Vec<_>>()
    });
    let off: Vec<(Uuid, &str)> = join_all(reports).await.into_iter().flatten().collect();
    if off.is_empty() {
        return;
    }
    let Ok(expected) = cell.db.expected_to_run(off.iter().map(|(server, _)| *server).collect()).await else { return };
    for (server, vm_state) in expected {
        if let Some((_, host)) = off.iter().find(|(known, _)| *known == server) {
            follow_one(world, name, host, server, vm_state).await;
        }
    }
}

/// Returns the servers whose guests are on a host and off; none if the host does not answer.
async fn guests_off(world: &World, cell: &str, host: &str) -> Vec<Uuid> {
    match world.hosts.query(cell, host, HostQuery::Summary, PATIENCE).await {
        Ok(HostAnswer::Summary(summary)) => summary.off,
        _ => Vec::new(),
    }
}

/// Reads the fence before it asks the host again: an operation between the host's answer and the record's change outdates both. A server
/// that still owes an undo is passed over, because the undo may be about to start its guest.
pub(super) async fn follow_one(world: &World, cell_name: &str, host: &str, server: Uuid, vm_state: VmState) {
    let Some(cell) = world.cells.get(cell_name) else { return };
    let Ok(Some((epoch, attempt))) = world.operations.may_run(server, cell_name.to_owned(), host.to_owned()).await else { return };
    let Ok(debts) = world.operations.debts(Some(server)).await else { return };
    if debts.iter().any(|debt| debt.side == Side::Undo.as_str()) {
        return;
    }
    let is_on_again = stands(Guard::PowerFence) && !guests_off(world, cell_name, host).await.contains(&server);
    if !is_on_again {
        record_off(cell, Fence { server, epoch, attempt }, host, vm_state).await;
    }
}

/// Records that the guest was off under this fence, unless something was written under a higher one.
pub(super) async fn record_off(cell: &CellAccess, fence: Fence, host: &str, vm_state: VmState) {
    let states = match vm_state {
        VmState::Active | VmState::Paused | VmState::Suspended => InstanceChange::states(VmState::Stopped, None),
        _ => InstanceChange::default(),
    };
    let change = InstanceChange { power_state: Some(PowerState::Shutdown), ..states };
    let txn = CellTxn::new().instance_change_if(fence.server, Expected::at_rest(&[vm_state]), change);
    if cell.db.apply(fence, txn).await.is_ok() {
        log::info!(server:% = fence.server, host; "the guest of a server that is {vm_state} is off, and its record says so now");
    }
}
