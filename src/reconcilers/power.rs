//! Power following: a server whose guest went off, or lost its memory, without an operation becomes SHUTOFF; while the server waits for
//! confirm or revert, only its power state changes. An active server whose guest is paused, suspended or rescued takes the guest's state: an
//! administrator has reset it while its host was silent.

use std::time::Duration;

use futures::future::join_all;
use uuid::Uuid;

use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::server::{PowerState, VmState};
use crate::env::guard::{Guard, stands};
use crate::saga::machine::Side;
use crate::saga::world::{CellAccess, World};

/// The longest wait for a host's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server's state by its record, and the state that fits its guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct States {
    pub record: VmState,
    pub guest: VmState,
}

impl States {
    /// Returns the change that makes the record fit; none if it stays.
    fn change(self) -> Option<InstanceChange> {
        let power = |power: PowerState, states: InstanceChange| Some(InstanceChange { power_state: Some(power), ..states });
        match (self.record, self.guest) {
            (VmState::Active | VmState::Paused | VmState::Suspended, VmState::Stopped) => {
                power(PowerState::Shutdown, InstanceChange::states(VmState::Stopped, None))
            }
            (_, VmState::Stopped) => power(PowerState::Shutdown, InstanceChange::default()),
            (VmState::Active, VmState::Paused) => power(PowerState::Paused, InstanceChange::states(VmState::Paused, None)),
            (VmState::Active, VmState::Suspended) => power(PowerState::Suspended, InstanceChange::states(VmState::Suspended, None)),
            (VmState::Active, VmState::Rescued) => Some(InstanceChange::states(VmState::Rescued, None)),
            _ => None,
        }
    }
}

/// Follows the guests of a cell: its hosts with servers are asked at once, and the records of the guests that do not just run are read with
/// one query.
pub async fn follow(world: &World, name: &str) {
    let Some(cell) = world.cells.get(name) else { return };
    let Ok(hosts) = cell.db.hosts_with_servers().await else { return };
    let reports = hosts.iter().map(|host| async move {
        let guests = guests_not_active(world, name, host).await;
        guests.into_iter().map(|(server, guest)| (server, guest, host.as_str())).collect::<Vec<_>>()
    });
    let guests: Vec<(Uuid, VmState, &str)> = join_all(reports).await.into_iter().flatten().collect();
    if guests.is_empty() {
        return;
    }
    let Ok(records) = cell.db.expected_to_run(guests.iter().map(|(server, ..)| *server).collect()).await else { return };
    for (server, record) in records {
        let mut differing = guests.iter().filter(|(id, ..)| *id == server).map(|(_, guest, host)| (States { record, guest: *guest }, host));
        if let Some((states, host)) = differing.find(|(states, _)| states.change().is_some()) {
            follow_one(world, name, host, server, states).await;
        }
    }
}

/// Returns the guests on a host that are paused, suspended, rescued or off, with the state of a server with such a guest; none if the host
/// does not answer. A rescued guest that is off is both.
async fn guests_not_active(world: &World, cell: &str, host: &str) -> Vec<(Uuid, VmState)> {
    match world.hosts.query(cell, host, HostQuery::Summary, PATIENCE).await {
        Ok(HostAnswer::Summary(summary)) => {
            summary.apart.into_iter().chain(summary.off.into_iter().map(|server| (server, VmState::Stopped))).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads the fence before it asks the host again: an operation between the host's answer and the record's change outdates both. A server
/// that still owes an undo is passed over, because the undo may be about to start its guest.
pub async fn follow_one(world: &World, cell_name: &str, host: &str, server: Uuid, states: States) {
    let Some(cell) = world.cells.get(cell_name) else { return };
    let Ok(Some((epoch, attempt))) = world.operations.may_run(server, cell_name.to_owned(), host.to_owned()).await else { return };
    let Ok(debts) = world.operations.debts(Some(server)).await else { return };
    if debts.iter().any(|debt| debt.side == Side::Undo.as_str()) {
        return;
    }
    let is_other_now = stands(Guard::PowerFence) && !guests_not_active(world, cell_name, host).await.contains(&(server, states.guest));
    if !is_other_now {
        record(cell, Fence { server, epoch, attempt }, host, states).await;
    }
}

/// Records the state that the guest had under this fence, unless something was written under a higher one.
pub async fn record(cell: &CellAccess, fence: Fence, host: &str, states: States) {
    let Some(change) = states.change() else { return };
    let txn = CellTxn::new().instance_change_if(fence.server, Expected::at_rest(&[states.record]), change);
    if cell.db.apply(fence, txn).await.is_ok() {
        let States { record, guest } = states;
        log::info!(server:% = fence.server, host; "the guest of a server that is {record} is {guest}, and its record says so now");
    }
}
