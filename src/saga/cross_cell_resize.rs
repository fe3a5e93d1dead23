//! The cross-cell resize: a server moves to a host in another cell, keeping its id, addresses, volumes and data.
//!
//! The two cells cannot reach each other, so the local disks travel as a temporary image and the server's records are
//! copied by the conductor, which alone sees both. Until `take_ownership` nothing has run at the target: everything can be
//! undone and the source guest runs again on its kept disks. After it the saga goes forward; only the target's own "not
//! running, fenced" (or an operator who forced the host down) leads back. See INVARIANTS S4.
//!
//! Who writes what: the source record is the visible one until `publish` and carries the task; the target record is hidden
//! until then and gets its final state in `finish_target_record`. Both carry the migration under the saga's id.

use super::accept::{accept_again, give_back};
use super::context::Context;
use super::error::StepError;
use super::guest_move::{self, *};
use super::history;
use super::resize::*;
use super::step::{At, Deadline, Moot, Step, Table, Undo, work};
use super::step_name::StepName;
use super::world::World;
use crate::db::DbError;
use crate::db::cell::CellTxn;
use crate::db::cell::instance_change::InstanceChange;
use crate::db::cell::migrations::MigrationContext;
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{HostCommand, HostReply};
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::{InstanceAction, Phase};
use crate::domain::server::{PowerState, TaskState, VmState};
use crate::env::guard::{Guard, stands};
use crate::services::image::Image;

/// The saga.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    // In the request: the operation's row and the task keep every other operation out. The undo ends what users see of it.
    Step::reversible(StepName::Accept, work!(accept_again), Undo::By(work!(give_back))),
    // Before any effect, so that every failure from here on has a migration that says `error`.
    Step::reversible(StepName::RecordMigration, work!(record_migration), Undo::By(work!(fail_migration))).before_the_next_move(),
    // Before the scheduler claims: the claim is the server's, what it has now must be someone else's.
    Step::reversible(StepName::HoldSourceAllocation, work!(hold_source_allocation), Undo::By(work!(return_source_allocation)))
        .before_the_next_move(),
    // A later refusal of the host leads back to here, for the next alternate.
    Step::reversible(StepName::SelectDestination, work!(select_destination), Undo::By(work!(release_destination))).before_the_next_move(),
    // Hidden: the mapping still names the source. First at the target, because the claim's context belongs to it.
    Step::reversible(StepName::CreateTargetRecords, work!(create_target_records), Undo::By(work!(delete_target_records))),
    // Inactive: traffic still goes to the source.
    Step::reversible(StepName::BindPortsAtTarget, work!(bind_ports_at_target), Undo::AtCandidate(work!(unbind_ports_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    // Empty: they only keep the volumes from being taken when the source lets go.
    Step::reversible(StepName::ReserveVolumesForTarget, work!(reserve_volumes_for_target), Undo::By(work!(release_target_volumes))),
    // Last of the preparation: a refusal here has touched nothing that runs.
    Step::reversible(StepName::ClaimAtTarget, work!(claim_at_target), Undo::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    Step::reversible(StepName::RecordTargetChoice, work!(record_target_choice), Undo::By(work!(clear_target_choice)))
        .before_the_next_move(),
    // The record of the image before its bytes, so that there is something to delete whatever becomes of the upload.
    Step::reversible(StepName::CreateSnapshotImage, work!(create_snapshot_image), Undo::By(work!(delete_snapshot_image))),
    // The guest is off from here on; every undo below ends with it running again.
    Step::reversible(StepName::StopSourceGuest, work!(stop_source_guest), Undo::By(work!(start_source_guest)))
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(180))
        .serving(),
    Step::reversible(StepName::UploadSnapshot, work!(upload_snapshot), Undo::Nothing("create_snapshot_image deletes the image"))
        .within(Deadline::WithoutProgress(60)),
    // Its disks stay: they are what a rollback or a revert runs on.
    Step::reversible(StepName::ReleaseSourceGuest, work!(release_source_guest), Undo::By(work!(define_source_guest_again))).serving(),
    // After the source has unplugged and before the target plugs.
    Step::reversible(StepName::ActivateTargetPorts, work!(activate_target_ports), Undo::By(work!(activate_source_ports)))
        .moot_when(Moot::LostOwnership(At::Source))
        .serving(),
    // Defined and verified, not started: all that can fail at the target fails here, while the way back is open.
    Step::reversible(StepName::PrepareAtTarget, work!(prepare_at_target), Undo::By(work!(remove_from_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .within(Deadline::WithoutProgress(60)),
    // One commit. From here on only the target may run the guest.
    Step::pivot(StepName::TakeOwnership, work!(take_ownership), Undo::By(work!(hand_back_ownership))),
    Step::forward_or_back(StepName::StartAtTarget, work!(start_at_target), Undo::By(work!(fence_target))).within(Deadline::Within(300)),
    // The whole final state while it is still hidden, so that users see it all at once.
    Step::forward(StepName::FinishTargetRecord, work!(finish_target_record)),
    // Unhide, then the mapping, then hide: at no moment is there no visible record, and the mapping decides between two.
    Step::forward(StepName::Publish, work!(publish)),
    Step::cleanup(StepName::DeleteSnapshotImage, work!(delete_snapshot_image)),
];

/// A hidden copy of the server and all that belongs to it, in the target cell.
async fn create_target_records(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let mut bundle = world.cell(&source.cell)?.export_bundle(context.server).await?;
    bundle.migration_context = None;
    Ok(world.cell(&target.cell)?.import_bundle(fence, bundle, true).await?)
}

/// Undo: the copy is removed, with everything related.
async fn delete_target_records(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Some(target) = context.target.clone() else { return Ok(()) };
    delete_hidden_records(world, context, fence, &target.cell).await
}

/// Removes the server's record from a cell that the mapping does not name. The visible record is never removed (NOVA-DIFFERENCES L1), nor
/// what a later move has brought there: then what is owed is only the move's own record, unless that has come along as history.
pub async fn delete_hidden_records(world: &World, context: &Context, fence: Fence, cell: &str) -> Result<(), StepError> {
    let is_visible = match world.api.instance_mapping(context.server).await {
        Ok(mapping) => stands(Guard::VisibleRecord) && mapping.cell_uuid == Some(world.cell_uuid(cell)?),
        Err(DbError::NotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    let txn = match is_visible || super::debt::records_in_use_again(world, context, cell).await? {
        false => CellTxn::new().hard_delete_instance(context.server),
        true if context.settling => CellTxn::new().forget_live_migration(context.move_id()),
        true => return Ok(()),
    };
    Ok(world.cell(cell)?.apply(fence, txn).await?)
}

/// Where the server goes, on both records: the source's shows it to operators, the target's needs it when it is published.
async fn record_target_choice(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let prior = context.prior.as_ref().map(|prior| prior.vm_state);
    let flavors = |change: InstanceChange| InstanceChange {
        old_flavor: Some(context.old_flavor.clone()),
        new_flavor: Some(context.new_flavor.clone()),
        old_vm_state: Some(prior),
        ..change
    };
    let move_context = MigrationContext {
        migration_uuid: context.saga,
        context: serde_json::json!({ "host": target.host, "node": target.node, "resources": context.new_resources() }),
    };
    let at_target = CellTxn::new()
        .instance_change(
            context.server,
            flavors(InstanceChange { availability_zone: Some(target.availability_zone.clone()), ..InstanceChange::default() }),
        )
        .migration_change(context.saga, target_on_record(&target, true))
        .set_migration_context(context.server, move_context.clone());
    let at_source = CellTxn::new()
        .instance_change(context.server, flavors(InstanceChange::task(Some(TaskState::ResizeMigrating))))
        .migration_change(context.saga, target_on_record(&target, true))
        .set_migration_context(context.server, move_context);
    // At once: neither record needs the other, and both shall be tried.
    let (at_target, at_source) =
        futures::join!(world.cell(&target.cell)?.apply(fence, at_target), world.cell(&source.cell)?.apply(fence, at_source));
    at_target?;
    Ok(at_source?)
}

/// Undo: the source record knows nothing of the target (NOVA-DIFFERENCES L14).
async fn clear_target_choice(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let source = context.source()?.clone();
    ignore_missing(world.cell(&source.cell)?.apply(fence, CellTxn::new().clear_move_fields(context.server)).await)
}

/// The record of the temporary image; none when there is no local disk to carry.
async fn create_snapshot_image(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    let id = context.derived_id("snapshot");
    let now = world.env.now();
    let properties = [
        ("image_type", "snapshot".to_owned()),
        ("instance_uuid", context.server.to_string()),
        ("user_id", context.caller.user_id.clone()),
        ("cellshift_migration", context.saga.to_string()),
    ];
    let shared = context.caller.project_id != context.project_id;
    let image = Image {
        id,
        name: Some(format!("{}-resize-temp", context.display_name)),
        status: "queued".into(),
        visibility: if shared { "shared" } else { "private" }.into(),
        owner: context.caller.project_id.clone(),
        disk_format: Some("raw".into()),
        container_format: Some("bare".into()),
        min_disk: 0,
        min_ram: 0,
        size: None,
        os_hash_value: None,
        protected: false,
        properties: properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        tags: Vec::new(),
        members: if shared { vec![context.project_id.clone()] } else { Vec::new() },
        created_at: now,
        updated_at: now,
    };
    world.images.create_image(fence, image).await?;
    context.snapshot = Some(id);
    Ok(())
}

/// The temporary image is removed: the undo before the pivot, the last step after it.
async fn delete_snapshot_image(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    if !context.has_local_disks() {
        return Ok(());
    }
    Ok(world.images.delete_image(fence, context.derived_id("snapshot")).await?)
}

/// The source host uploads the local disks; the manifest says what the target must find.
async fn upload_snapshot(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let Some(image_id) = context.snapshot else { return Ok(()) };
    let source = context.source()?.clone();
    match world.ask(context, &source, fence, HostCommand::UploadSnapshot { image_id }).await? {
        HostReply::Exported { manifest } => {
            context.manifest = Some(manifest);
            Ok(())
        }
        other => Err(StepError::Refused(format!("host {} answered an upload with: {other}", source.host))),
    }
}

/// The target's record in its final state, with the one history of both cells (NOVA-DIFFERENCES L7).
async fn finish_target_record(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    let done = history::event_done(CellTxn::new(), context, finish_event(context), Some(&target));
    world.cell(&source.cell)?.apply(fence, history::leading_done(done, context)).await?;
    let history_so_far = world.cell(&source.cell)?.history(context.server).await?;
    let change = InstanceChange {
        host: Some(Some(target.host.clone())),
        node: Some(Some(target.node.clone())),
        availability_zone: Some(target.availability_zone.clone()),
        flavor: context.new_flavor.clone(),
        power_state: Some(if context.ran_before() { PowerState::Running } else { PowerState::Shutdown }),
        launched_at: Some(Some(world.env.now())),
        ..InstanceChange::states(VmState::Resized, None)
    };
    let mut txn = CellTxn::new()
        .instance_change(context.server, change)
        .migration_status(context.saga, MigrationStatus::Finished)
        .merge_actions(context.server, history_so_far);
    txn = guest_move::attachments(world, context, &target.cell, txn, |volume| volume.target_attachment).await?;
    Ok(world.cell(&target.cell)?.apply(fence, history::succeeded(txn, context)).await?)
}

/// The user sees the target, all at once: the mapping is the only authority (INVARIANTS D1). Who is told of it finds it so.
async fn publish(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    let (source, target) = (context.source()?.clone(), context.target()?.clone());
    world.cell(&target.cell)?.set_hidden(fence, context.server, false).await?;
    world.api.publish_move(fence, context.server, world.cell_uuid(&target.cell)?, wanted_spec(context)?).await?;
    world.cell(&source.cell)?.set_hidden(fence, context.server, true).await?;
    history::notify(world, context, StepName::Publish, InstanceAction::ResizeFinish, Phase::End, &target).await;
    Ok(())
}
