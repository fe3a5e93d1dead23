//! The guest of a live migration: it waits for its turn, is copied while it runs, and runs on at one of the two hosts.

use std::time::Duration;

use super::guest::{forced_down_or, guest_spec};
use super::volumes::{complete_attachments, connect_volumes};
use crate::db::cell::CellTxn;
use crate::domain::fence::Fence;
use crate::domain::guest::{DiskSource, GuestSpec};
use crate::domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply};
use crate::domain::instance_change::InstanceChange;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::reason;
use crate::env::guard::{Guard, stands};
use crate::saga::context::{LiveMigrate, Place};
use crate::saga::debt;
use crate::saga::error::StepError;
use crate::saga::history;
use crate::saga::step_name::StepName;
use crate::saga::world::World;

/// The pause between two looks at a copy, whose progress users see.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The time after which a waiting operation asks for its turn again. The wait has no end of its own, so a lost request or reply would hold
/// the server for ever.
const ASKS_AGAIN: Duration = Duration::from_secs(5);
/// The target's event: its preparation.
const PREPARE: &str = "compute_pre_live_migration";
/// The source's event: the copy.
pub const COPY: &str = "compute_live_migration";

/// Waits until the source host may send this guest away.
pub async fn queue_at_source(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let txn = CellTxn::new().migration_status(context.saga, MigrationStatus::Queued);
    world.cell(&source.cell)?.apply(fence, txn).await?;
    await_turn(world, context, &source, fence).await?;
    context.taken_up = true;
    Ok(())
}

/// Asks for the turn until it comes. The host takes a repeated request for the waiting one.
async fn await_turn(world: &World, context: &LiveMigrate, source: &Place, fence: Fence) -> Result<(), StepError> {
    loop {
        if let Ok(reply) = tokio::time::timeout(ASKS_AGAIN, world.ask(context, source, fence, HostCommand::AwaitLiveTurn)).await {
            return reply.map(drop);
        }
    }
}

/// Undo: gives the turn to the next.
pub async fn leave_queue(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let aborted = context.cancelled && !context.copy_given_up;
    tell_abort(world, context, aborted, (StepName::QueueAtSource, Phase::Start)).await?;
    world.ask(context, &source, fence, HostCommand::LeaveLiveQueue).await?;
    tell_abort(world, context, aborted, (StepName::QueueAtSource, Phase::End)).await
}

/// Notifies consumers of a user's abort, at the source host.
async fn tell_abort(world: &World, context: &LiveMigrate, aborted: bool, (step, phase): (StepName, Phase)) -> Result<(), StepError> {
    if aborted {
        history::notify(world, context, step, InstanceAction::LiveMigrationAbort, phase, context.source()?).await;
    }
    Ok(())
}

/// Has the target define the guest with empty disks, beside the source's connections to its volumes. It is not started.
pub async fn prepare_live_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let event = |phase| (StepName::PrepareAtTarget, InstanceAction::LiveMigrationPre, phase);
    let txn = CellTxn::new().migration_status(context.saga, MigrationStatus::Preparing);
    let txn = history::event_started(txn, context, PREPARE, Some(&target));
    history::apply_and_notify(world, context, fence, txn, event(Phase::Start), &target).await?;
    let spec = spec_at_target(world, context, fence, &target, DiskSource::Arriving).await?;
    world.ask(context, &target, fence, HostCommand::PrepareGuest { spec: Box::new(spec) }).await?;
    let done = history::event_done(CellTxn::new(), context, PREPARE, Some(&target));
    history::apply_and_notify(world, context, fence, done, event(Phase::End), &target).await
}

async fn spec_at_target(
    world: &World,
    context: &LiveMigrate,
    fence: Fence,
    target: &Place,
    disks: DiskSource,
) -> Result<GuestSpec, StepError> {
    let volumes = connect_volumes(world, context, fence, target, |volume| volume.target_attachment).await?;
    let flavor = context.new_flavor.clone().unwrap_or_default();
    guest_spec(world, context, target, flavor, disks, volumes).await
}

/// Has the source copy the guest, and pause it at the end. Shows the progress meanwhile.
pub async fn copy_guest(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let txn = CellTxn::new().migration_status(context.saga, MigrationStatus::Running);
    let txn = history::event_started(txn, context, COPY, Some(&source));
    world.cell(&source.cell)?.apply(fence, txn).await?;
    let reply = tokio::select! {
        biased;
        reply = world.ask(context, &source, fence, HostCommand::CopyGuest) => reply?,
        () = show_progress(world, context, fence, &source) => return Err(StepError::Unknown("the progress is no longer shown".into())),
    };
    let HostReply::Copied { manifest, memory } = reply else {
        return Err(StepError::Refused(reason!("host {} answered a copy with: {reply}", source.host)));
    };
    (context.manifest, context.memory) = (Some(manifest), Some(memory));
    Ok(())
}

/// Writes the percentage to the server's record, for as long as it is polled.
async fn show_progress(world: &World, context: &LiveMigrate, fence: Fence, source: &Place) {
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let query = HostQuery::LiveProgress { operation: context.saga };
        let Ok(HostAnswer::LiveProgress(Some(progress))) = world.hosts.query(&source.cell, &source.host, query, BETWEEN_LOOKS).await else {
            continue;
        };
        let change = InstanceChange { progress: Some(progress.percent()), ..InstanceChange::default() };
        if let Ok(cell) = world.cell(&source.cell)
            && let Err(error) = cell.apply(fence, CellTxn::new().instance_change(context.server, change)).await
        {
            log::debug!(server:% = context.server, migration:% = context.saga; "the progress is not shown: {error}");
        }
    }
}

/// Payment of [`resume_at_source`]: leaves a guest alone that the server has elsewhere by now, or that its user has mended. Only what was
/// copied goes.
pub async fn pay_guest_at_source(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    match debt::lost_ownership(world, context, &source).await? || debt::was_mended(world, context).await? {
        true => world.ask(context, &source, fence, HostCommand::DropExport).await.map(drop),
        false => resume_at_source(world, context, fence).await,
    }
}

/// Undo: lets the guest run on at the source, and removes what was copied.
pub async fn resume_at_source(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    let event = |phase| (StepName::CopyGuest, InstanceAction::LiveMigrationRollback, phase);
    let aborted = context.cancelled;
    tell_abort(world, context, aborted, (StepName::CopyGuest, Phase::Start)).await?;
    history::apply_and_notify(world, context, fence, CellTxn::new(), event(Phase::Start), &source).await?;
    world.ask(context, &source, fence, HostCommand::EndLiveCopy { paused: context.was_paused() }).await?;
    tell_abort(world, context, aborted, (StepName::CopyGuest, Phase::End)).await?;
    context.copy_given_up = true;
    let change = InstanceChange { progress: Some(0), ..InstanceChange::default() };
    let txn = CellTxn::new().instance_change(context.server, change);
    history::apply_and_notify(world, context, fence, txn, event(Phase::End), &source).await
}

/// Undo: removes what has come to the target. The fence refuses a late start.
pub async fn remove_live_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let (target, action) = (context.target()?.clone(), InstanceAction::LiveMigrationRollbackDest);
    history::notify(world, context, StepName::PrepareAtTarget, action, Phase::Start, &target).await;
    world.ask(context, &target, fence, HostCommand::RemoveGuest).await?;
    history::notify(world, context, StepName::PrepareAtTarget, action, Phase::End, &target).await;
    Ok(())
}

/// Lets the guest run on at the target, from what the source has left in the transfer area, under the new epoch.
pub async fn resume_at_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    let memory = context.memory.clone().ok_or_else(|| StepError::Refused("the guest's memory was not copied".into()))?;
    let manifest = context.manifest.clone().unwrap_or_default();
    let source = Some(context.source()?.host.clone());
    let disks = DiskSource::Transfer { migration: context.move_id(), source, manifest };
    let spec = Box::new(spec_at_target(world, context, fence, &target, disks).await?);
    world.ask(context, &target, fence, HostCommand::ReceiveGuest { spec, memory, paused: context.was_paused() }).await?;
    complete_attachments(world, context, fence).await
}

/// Undo, past the pivot: the server goes back only if the target says that the guest has not run there since the pivot, or takes no requests
/// and was forced down by an operator. If the guest has run there, the paused guest at the source is out of date.
pub async fn fence_live_target(world: &World, context: &mut LiveMigrate, fence: Fence) -> Result<(), StepError> {
    let target = context.target()?.clone();
    match world.ask(context, &target, fence, HostCommand::Fence).await {
        Ok(HostReply::Stopped { was_running: true }) => {
            complete_attachments(world, context, fence).await?;
            Err(StepError::GoForward(reason!("the guest runs on {}", target.host)))
        }
        Ok(_) if stands(Guard::LiveTargetRan) && has_run(world, context, fence, &target).await? => {
            if context.was_paused() {
                complete_attachments(world, context, fence).await?;
                return Err(StepError::GoForward(reason!("the paused guest is on {}", target.host)));
            }
            Err(StepError::Refused(reason!("the guest has run on {} and is to run there again", target.host)))
        }
        Ok(_) => Ok(()),
        Err(StepError::Unknown(why)) => forced_down_or(world, &target, why).await,
        Err(other) => Err(other),
    }
}

/// True if the guest was started at the target for the present epoch.
async fn has_run(world: &World, context: &LiveMigrate, fence: Fence, target: &Place) -> Result<bool, StepError> {
    let guest = debt::guest_at(world, context, target).await?;
    Ok(guest.is_some_and(|guest| guest.started_epoch == fence.epoch))
}
