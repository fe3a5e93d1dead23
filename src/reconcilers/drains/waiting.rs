//! Moves of others that wait for confirm or revert: the host that the server has left keeps its disks and its room until then. The drain confirms
//! them if its operator asked for that and may, and else tells of them.

use uuid::Uuid;

use super::Driven;
use crate::db::DbError;
use crate::domain::drain::{DrainPlan, DrainServer, DrainServerState, MoveKind};
use crate::domain::instance::Instance;
use crate::domain::migration::{Migration, MigrationFilter, MigrationStatus};
use crate::domain::reason;
use crate::domain::server::VmState;
use crate::saga::accept;
use crate::saga::error::StepError;
use crate::saga::refusal::Refusal;
use crate::saga::world::World;

/// The reason of a server that has left the host by such a move.
pub(super) const WAITS: &str = "its move waits for confirm or revert";

/// A server whose move waits.
pub(super) struct Waiting {
    /// The cell in which it is now.
    pub cell: String,
    pub instance: Instance,
    pub migration: Migration,
}

/// Returns the server's waiting move, if it has one, as the record that users see knows it.
pub(super) async fn waiting_move(world: &World, server: Uuid) -> Result<Option<Waiting>, Refusal> {
    let (cell, instance) = accept::find(world, server).await?;
    if instance.vm_state != VmState::Resized {
        return Ok(None);
    }
    let migration = world.cell(&cell)?.latest_migration(server, &[MigrationStatus::Finished]).await?;
    Ok(migration.map(|migration| Waiting { cell, instance, migration }))
}

/// Returns the servers that have left the plan's hosts by moves that wait, each with the host that it has left. A server that is on
/// another host of the plan now must leave that host, too.
pub(super) async fn left_by_moves(world: &World, plan: &DrainPlan) -> Result<Vec<(Waiting, String)>, StepError> {
    let mut moves = Vec::new();
    for host in &plan.hosts {
        // The source's copy of a move between cells says only that it began.
        let from_host =
            MigrationFilter { statuses: MigrationStatus::LIVE.to_vec(), source_compute: Some(host.clone()), ..MigrationFilter::default() };
        for migration in world.cell(&plan.cell)?.migrations(from_host).await? {
            // The record may be the old one of a server that has gone on in another cell.
            let waiting = match waiting_move(world, migration.instance_uuid).await {
                Ok(waiting) => waiting.filter(|waiting| waiting.migration.uuid == migration.uuid && !is_on(plan, &waiting.instance)),
                Err(Refusal::NotFound(_)) => None,
                Err(refusal) => return Err(StepError::Unknown(reason!("{refusal}"))),
            };
            moves.extend(waiting.map(|waiting| (waiting, host.clone())));
        }
    }
    Ok(moves)
}

fn is_on(plan: &DrainPlan, server: &Instance) -> bool {
    server.host.as_ref().is_some_and(|host| plan.hosts.contains(host))
}

impl Driven<'_> {
    /// Confirms the waiting move of a server, or tells of it. A server whose move brought it to the host has no target in its row: it must still
    /// leave.
    pub(super) async fn confirm_or_tell(&self, server: DrainServer, waiting: &Waiting) -> Result<Option<DrainServer>, DbError> {
        let is_here = waiting.instance.host.as_ref() == Some(&server.host);
        let target = waiting.instance.host.clone().filter(|_| !is_here);
        if !self.drain.plan.confirm_others {
            let reason = Some(WAITS.to_owned());
            return self.write(DrainServer { state: DrainServerState::Gone, kind: Some(MoveKind::Cold), target, reason, ..server }).await;
        }
        let operation = Some(waiting.migration.uuid);
        let moving = DrainServer {
            state: DrainServerState::Moving,
            kind: Some(MoveKind::Cold),
            target,
            operation,
            next_try_at: None,
            reason: None,
            ..server
        };
        self.confirm(moving).await
    }
}
