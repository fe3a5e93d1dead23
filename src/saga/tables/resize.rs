//! Resize and cold migration: the rows that the tables of both moves share. The scheduler's choice decides whether a move stays in its cell
//! (`same_cell_resize`) or crosses (`cross_cell_resize`).

use super::{cross_cell_resize, same_cell_resize};
pub use crate::saga::accept::ACCEPT;
use crate::saga::claim::GiveUp;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{
    claim_at_target, drop_claim_at_target, hold_source_allocation, pay_destination, pay_source_allocation, release_destination,
    return_source_allocation, select_destination,
};
use crate::saga::steps::guest::{
    define_source_guest_again, fence_target, pay_source_guest, prepare_at_target, release_source_guest, remove_from_target,
    start_at_target, start_source_guest, stop_source_guest,
};
use crate::saga::steps::ownership::{hand_back_ownership, take_ownership};
use crate::saga::steps::ports::{activate_source_ports, activate_target_ports, bind_ports_at_target, unbind_ports_at_target};
use crate::saga::steps::records::{fail_migration, record_migration};
use crate::saga::steps::volumes::{release_target_volumes, reserve_volumes_for_target};

/// The operation.
pub const OPERATION: Operation = Operation::new(
    "resize",
    &[("same_cell_resize", same_cell_resize::TABLE), ("cross_cell_resize", cross_cell_resize::TABLE)],
    |context| {
        let stays = context.target.is_some() && !context.crosses_cells();
        if stays { same_cell_resize::TABLE } else { cross_cell_resize::TABLE }
    },
)
.moving()
// Clients that wait for the end of a task call such a move complete.
.when_undone("the server is where it was");

/// Before any effect, so that every later failure has a migration that says `error`.
pub const RECORD_MIGRATION: Step =
    Step::reversible(StepName::RecordMigration, work!(record_migration), Undo::By(work!(fail_migration))).before_the_next_move();

/// Before the scheduler claims: the claim is the server's, so the migration must hold the server's present allocation.
pub const HOLD_SOURCE_ALLOCATION: Step =
    Step::claiming(StepName::HoldSourceAllocation, claims!(hold_source_allocation), GiveUp::By(work!(return_source_allocation)))
        .paid_by(work!(pay_source_allocation))
        .before_the_next_move();

/// A later refusal of the host leads back to this step, for the next alternate.
pub const SELECT_DESTINATION: Step =
    Step::claiming(StepName::SelectDestination, claims!(select_destination), GiveUp::By(work!(release_destination)))
        .paid_by(work!(pay_destination))
        .before_the_next_move();

/// Inactive bindings: traffic still goes to the source.
pub const BIND_PORTS_AT_TARGET: Step =
    Step::reversible(StepName::BindPortsAtTarget, work!(bind_ports_at_target), Undo::AtCandidate(work!(unbind_ports_at_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .idle(idle::without_ports);

/// Empty attachments: they keep the volumes from being taken when the source lets go.
pub const RESERVE_VOLUMES_FOR_TARGET: Step =
    Step::reversible(StepName::ReserveVolumesForTarget, work!(reserve_volumes_for_target), Undo::By(work!(release_target_volumes)))
        .idle(idle::without_volumes);

/// Last of the preparation: a refusal here has touched nothing that runs.
pub const CLAIM_AT_TARGET: Step =
    Step::claiming(StepName::ClaimAtTarget, claims!(claim_at_target), GiveUp::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target));

/// The guest is off from here on; every undo below ends with it running again.
pub const STOP_SOURCE_GUEST: Step =
    Step::reversible(StepName::StopSourceGuest, work!(stop_source_guest), Undo::By(work!(start_source_guest)))
        .moot_when(Moot::OutOfHand(At::Source))
        .within(Deadline::Within(180))
        .serving();

/// The source's disks stay: a rollback or a revert runs on them.
pub const RELEASE_SOURCE_GUEST: Step =
    Step::reversible(StepName::ReleaseSourceGuest, work!(release_source_guest), Undo::By(work!(define_source_guest_again)))
        .paid_by(work!(pay_source_guest))
        .serving();

/// After the source has unplugged and before the target plugs.
pub const ACTIVATE_TARGET_PORTS: Step =
    Step::reversible(StepName::ActivateTargetPorts, work!(activate_target_ports), Undo::By(work!(activate_source_ports)))
        .moot_when(Moot::LostOwnership(At::Source))
        .serving()
        .idle(idle::without_ports);

/// Defined and verified, not started: all that can fail at the target fails here, while the way back is open.
pub const PREPARE_AT_TARGET: Step =
    Step::reversible(StepName::PrepareAtTarget, work!(prepare_at_target), Undo::By(work!(remove_from_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .within(Deadline::WithoutProgress(60));

/// The pivot: a single commit, after which only the target may run the guest.
pub const TAKE_OWNERSHIP: Step = Step::pivot(StepName::TakeOwnership, work!(take_ownership), Undo::By(work!(hand_back_ownership)));

/// The guest runs at the target. The undo hands the server back, if the target says that the guest does not run.
pub const START_AT_TARGET: Step =
    Step::forward_or_back(StepName::StartAtTarget, work!(start_at_target), Undo::By(work!(fence_target))).within(Deadline::Within(300));
