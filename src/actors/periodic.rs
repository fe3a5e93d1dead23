//! What happens by itself: resizes that wait too long are confirmed, queued deletes are carried out, and records follow guests
//! that went off on their own.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use chrono::TimeDelta;
use uuid::Uuid;

use super::queued_deletes::QueuedDeletes;
use super::supervision::{DeathGuard, Pause, Shutdown, stand_still};
use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::{Expected, InstanceChange};
use crate::db::cell::migrations::MigrationFilter;
use crate::domain::context::RequestContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostAnswer, HostQuery};
use crate::domain::migration::MigrationStatus;
use crate::domain::server::{PowerState, VmState};
use crate::env::guard::{Guard, stands};
use crate::saga::context::{ConfirmRequest, Context as SagaContext, Request};
use crate::saga::operations::BeginOperation;
use crate::saga::refusal::Refusal;
use crate::saga::world::{CellRef, World};

/// How the periodic work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeriodicOptions {
    /// A resize that has waited this long is confirmed; zero is never.
    pub resize_confirm_window: Duration,
    /// How often everything is looked at.
    pub interval: Duration,
}

/// Look now.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Look;

/// The actor.
#[derive(Clone)]
pub struct PeriodicParts {
    pub world: Arc<World>,
    pub conductor: Arc<dyn BeginOperation>,
    pub options: PeriodicOptions,
}

/// One life of it.
pub struct Periodic {
    parts: PeriodicParts,
    busy: bool,
    deletes: Arc<QueuedDeletes>,
    deleting: bool,
    _guard: Option<DeathGuard>,
}

impl Periodic {
    pub fn new(parts: PeriodicParts, guard: Option<DeathGuard>) -> Periodic {
        let deletes = Arc::new(QueuedDeletes::new(parts.world.clone(), parts.conductor.clone()));
        Periodic { parts, busy: false, deletes, deleting: false, _guard: guard }
    }
}

impl Actor for Periodic {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.parts.options.interval, |_, ctx| ctx.notify(Look));
    }
}

impl Handler<Look> for Periodic {
    type Result = ();

    fn handle(&mut self, _: Look, ctx: &mut Self::Context) {
        // On their own: a cell that hangs under the other work must not keep them waiting.
        if !std::mem::replace(&mut self.deleting, true) {
            let deletes = self.deletes.clone();
            let looking = async move { deletes.look().await };
            ctx.spawn(looking.into_actor(self).map(|(), periodic, _| periodic.deleting = false));
        }
        if std::mem::replace(&mut self.busy, true) {
            return;
        }
        let parts = self.parts.clone();
        let looking = async move {
            confirm_overdue(&parts).await;
            follow_power(&parts.world).await;
        };
        ctx.spawn(looking.into_actor(self).map(|(), periodic, _| periodic.busy = false));
    }
}

impl Handler<Shutdown> for Periodic {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Pause> for Periodic {
    type Result = ();

    fn handle(&mut self, pause: Pause, ctx: &mut Self::Context) {
        stand_still(self, pause, ctx);
    }
}

/// Confirms what has waited longer than the window, in every cell that answers (NOVA-DIFFERENCES L6).
async fn confirm_overdue(parts: &PeriodicParts) {
    let window = parts.options.resize_confirm_window;
    let Ok(window) = TimeDelta::from_std(window) else { return };
    if window.is_zero() {
        return;
    }
    let before = parts.world.env.now() - window;
    for (name, cell) in &parts.world.cells {
        let filter =
            MigrationFilter { statuses: vec![MigrationStatus::Finished], changes_before: Some(before), ..MigrationFilter::default() };
        match cell.db.migrations(filter).await {
            Ok(overdue) => {
                for migration in overdue {
                    confirm(parts, migration.instance_uuid, &migration.user_id, &migration.project_id).await;
                }
            }
            Err(error) => log::warn!(cell = name.as_str(); "Error auto-confirming resizes, they are tried later: {error}"),
        }
    }
}

async fn confirm(parts: &PeriodicParts, server: Uuid, user_id: &str, project_id: &str) {
    let caller = RequestContext {
        request_id: format!("req-{}", parts.world.env.uuid()),
        user_id: user_id.to_owned(),
        project_id: project_id.to_owned(),
        ..RequestContext::default()
    };
    let context = SagaContext::new(parts.world.env.uuid(), caller, server, Request::Confirm(ConfirmRequest { automatic: true }));
    match parts.conductor.begin(context).await {
        Ok(saga) => log::info!(server:% = server, migration:% = saga; "Automatically confirming a resize"),
        // A source record's stale copy, or a user who was faster.
        Err(Refusal::Conflict(_) | Refusal::Invalid(_) | Refusal::NotFound(_)) => {}
        Err(refusal) => log::warn!(server:% = server; "Error auto-confirming resize, it is tried later: {refusal}"),
    }
}

/// Servers whose guests are off without anyone having asked become SHUTOFF; of one that waits to be confirmed or
/// reverted only the power state changes.
async fn follow_power(world: &World) {
    for (name, cell) in &world.cells {
        let Ok(nodes) = cell.db.compute_nodes().await else { continue };
        for node in nodes {
            for server in guests_off(world, name, &node.host).await {
                follow_one(world, name, &node.host, server).await;
            }
        }
    }
}

/// The servers whose guests are on a host and off; none when it does not answer.
async fn guests_off(world: &World, cell: &str, host: &str) -> Vec<Uuid> {
    let report = world.hosts.query(cell, host, HostQuery::Report, Duration::from_secs(5)).await;
    let Ok(HostAnswer::Report(report)) = report else { return Vec::new() };
    let off = report.guests.iter().filter(|guest| guest.defined && guest.power_state == PowerState::Shutdown);
    off.map(|guest| guest.server).collect()
}

/// The fence is read before the host is asked again: an operation between its word and the record's change outdates both.
async fn follow_one(world: &World, cell_name: &str, host: &str, server: Uuid) {
    let Some(cell) = world.cells.get(cell_name) else { return };
    let Ok(record) = cell.db.instance(server).await else { return };
    let follows = record.vm_state == VmState::Active || (record.vm_state == VmState::Resized && record.power_state == PowerState::Running);
    if !follows || record.task_state.is_some() {
        return;
    }
    let Ok(Some((epoch, attempt))) = world.operations.may_run(server, cell_name.to_owned(), host.to_owned()).await else { return };
    if !stands(Guard::PowerFence) || guests_off(world, cell_name, host).await.contains(&server) {
        record_off(cell, Fence { server, epoch, attempt }, host, record.vm_state).await;
    }
}

/// The guest was off under this fence: the record says so, unless something was written under a higher one.
async fn record_off(cell: &CellRef, fence: Fence, host: &str, vm_state: VmState) {
    let states = if vm_state == VmState::Active { InstanceChange::states(VmState::Stopped, None) } else { InstanceChange::default() };
    let change = InstanceChange { power_state: Some(PowerState::Shutdown), ..states };
    let txn = CellTxn::new().instance_change_if(fence.server, Expected::at_rest(&[vm_state]), change);
    if cell.db.apply(fence, txn).await.is_ok() {
        log::info!(server:% = fence.server, host; "the guest of a server that is {vm_state} is off, and its record says so now");
    }
}
