//! The reset of a server's state by an administrator (`os-resetState`). It is no saga: one commit under the server's present fence. The record
//! of a server that becomes active says what its guest does, so that record and guest agree (INVARIANTS I2).

use std::time::Duration;

use uuid::Uuid;

use super::accept::{ENDING, find};
use super::machine::Side;
use super::refusal::Refusal;
use super::world::{CELL0, World};
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::domain::action::ActionKey;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::GuestReport;
use crate::domain::instance::Instance;
use crate::domain::instance_change::{Expected, InstanceChange};
use crate::domain::migration::MigrationStatus;
use crate::domain::reason;
use crate::domain::server::{PowerState, TaskState, VmState};

/// The longest wait for the host's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The states to which an administrator resets a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetTo {
    Active,
    Error,
}

/// Resets the state of a server that no operation holds and whose move does not wait.
pub async fn reset(world: &World, caller: &RequestContext, server: Uuid, to: ResetTo) -> Result<(), Refusal> {
    // The fence comes first: an operation that begins later outdates all that is read below.
    let fence = world.operations.ownership(server).await?.map(|row| Fence { server, epoch: row.epoch, attempt: row.attempt });
    let (cell, instance) = find(world, server).await?;
    if world.operations.holder(server).await?.is_some() {
        return Err(held(server, instance.task_state));
    }
    check_state(&instance)?;
    let change = match to {
        ResetTo::Error => InstanceChange::states(VmState::Error, None),
        ResetTo::Active => active(world, &cell, &instance).await?,
    };
    let key = ActionKey { instance: server, request_id: caller.request_id.clone(), action: "resetState".to_owned() };
    // A task without an operation was written by hand, and ends here.
    let expected = Expected { vm_states: vec![instance.vm_state], task_states: vec![instance.task_state] };
    let txn = CellTxn::new()
        .instance_change_if(server, expected, change)
        .action_started(key.clone(), caller.user_id.clone(), caller.project_id.clone())
        .action_finished(key, None);
    let db = world.cell(&cell)?;
    let committed = match fence {
        Some(fence) => db.apply(fence, txn).await,
        None => db.apply_unfenced(txn).await,
    };
    committed.map_err(|error| match error {
        DbError::Stale(..) => held(server, None),
        other => other.into(),
    })
}

fn refused(server: Uuid, why: impl std::fmt::Display) -> Refusal {
    Refusal::Conflict(reason!("Cannot 'reset state' instance {server} {why}"))
}

/// Refuses a server that an operation holds.
fn held(server: Uuid, task: Option<TaskState>) -> Refusal {
    let at_work = task.map_or_else(|| "another operation on it is in progress".to_owned(), |task| format!("it is in task_state {task}"));
    let ends =
        "The operation ends by itself, in success or in the former state; while its host is down, a delete or an evacuation ends it.";
    refused(server, format!("while {at_work}. {ends}"))
}

/// Refuses states that another request ends, and gives back what they hold.
fn check_state(instance: &Instance) -> Result<(), Refusal> {
    match instance.vm_state {
        // Only an unshelve brings the guest and the image of a shelved server together, and only a restore shows a soft-deleted one again.
        kept @ (VmState::Shelved | VmState::ShelvedOffloaded | VmState::SoftDeleted) => {
            Err(refused(instance.uuid, format!("while it is in vm_state {kept}")))
        }
        // A confirm or a revert gives back what a waiting move holds. Both need the server's state.
        VmState::Resized => {
            Err(refused(instance.uuid, "while it is in vm_state resized. Confirm or revert its move with confirmResize or revertResize."))
        }
        _ => Ok(()),
    }
}

/// Returns the change that makes a server active: the record takes the state that the guest has. If the host is silent, or an undo is still to
/// bring the guest back, the server is active, and power following looks at the guest later.
async fn active(world: &World, cell: &str, instance: &Instance) -> Result<InstanceChange, Refusal> {
    let server = instance.uuid;
    let Some(host) = instance.host.as_deref().filter(|_| cell != CELL0) else {
        return Err(refused(server, "to active: it is on no host. Delete it."));
    };
    let waiting = world.cell(cell)?.latest_migration(server, &MigrationStatus::LIVE).await?;
    if waiting.is_some_and(|migration| ENDING.contains(&migration.status)) {
        let why = "to active: its move waits for confirm or revert. Reboot it hard, then confirm or revert the move.";
        return Err(refused(server, why));
    }
    let owes_undo = world.operations.debts(Some(server)).await?.iter().any(|debt| debt.side == Side::Undo.as_str());
    let guest = world.hosts.guest(cell, host, server, PATIENCE).await.ok().filter(|_| !owes_undo);
    let Some(guest) = guest else { return Ok(InstanceChange::states(VmState::Active, None)) };
    match guest.filter(|guest| guest.defined) {
        None => Err(refused(server, "to active: its host has no guest of it. Reboot it hard, or rebuild it.")),
        Some(guest) => Ok(state_of(&guest)),
    }
}

fn state_of(guest: &GuestReport) -> InstanceChange {
    let states = InstanceChange::states(guest.vm_state().unwrap_or(VmState::Active), None);
    let power = Some(guest.power_state).filter(|power| *power != PowerState::NoState);
    InstanceChange { power_state: power, ..states }
}
