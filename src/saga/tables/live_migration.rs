//! Live migration: the guest moves to another host of its cell while it runs.
//!
//! The source copies disks and memory into the cell's transfer area while the guest goes on writing, and pauses it for the last round.
//! Until `take_ownership` the guest runs, or can run on, at the source, so everything can be undone. The commit names the target while the
//! guest is paused there and not started here, so no two guests run. After it the source may die: the final state lies in the
//! transfer area. The server goes back only if the target says that the guest has not run, or an operator has forced it down
//! (INVARIANTS S4).
//!
//! A queue at the source bounds how many guests leave it at once. Waiting and copying may take long, so a wish to cancel interrupts both.

use super::confirm::{CLEAN_SOURCE_HOST, DROP_SOURCE_ALLOCATION, RELEASE_SOURCE_PORTS};
use super::resize::{ACCEPT, BIND_PORTS_AT_TARGET, HOLD_SOURCE_ALLOCATION, RESERVE_VOLUMES_FOR_TARGET, TAKE_OWNERSHIP};
use crate::saga::claim::GiveUp;
use crate::saga::idle;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{drop_claim_at_target, pay_destination, release_destination};
use crate::saga::steps::live_choice::{check_at_target, claim_live_target, select_live_destination};
use crate::saga::steps::live_guest::{
    copy_guest, fence_live_target, leave_queue, pay_guest_at_source, prepare_live_target, queue_at_source, remove_live_target,
    resume_at_source, resume_at_target,
};
use crate::saga::steps::live_records::{
    drop_transfer, end_live_migration, finish_live_record, record_live_migration, record_live_target, release_left_volumes, switch_ports,
};
use crate::saga::steps::ports::activate_source_ports;

/// The operation.
pub const OPERATION: Operation = Operation::new("live_migrate", &[("live_migration", TABLE)], |_| TABLE)
    .moving_live()
    // Clients that wait for the end of a task call such a move complete.
    .when_undone("the server is where it was");

/// The saga.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    ACCEPT,
    Step::reversible(StepName::RecordMigration, work!(record_live_migration), Undo::By(work!(end_live_migration))).before_the_next_move(),
    HOLD_SOURCE_ALLOCATION,
    Step::claiming(StepName::SelectDestination, claims!(select_live_destination), GiveUp::By(work!(release_destination)))
        .paid_by(work!(pay_destination))
        .before_the_next_move(),
    Step::reversible(StepName::CheckAtTarget, work!(check_at_target), Undo::Nothing("it only asks")),
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    Step::claiming(StepName::ClaimAtTarget, claims!(claim_live_target), GiveUp::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    Step::reversible(StepName::RecordTargetChoice, work!(record_live_target), Undo::Nothing("the record says where the server was to go")),
    Step::reversible(StepName::QueueAtSource, work!(queue_at_source), Undo::By(work!(leave_queue)))
        .within(Deadline::WhileAlive(60))
        .interruptible(),
    Step::reversible(StepName::PrepareAtTarget, work!(prepare_live_target), Undo::By(work!(remove_live_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .within(Deadline::WithoutProgress(60)),
    Step::reversible(StepName::CopyGuest, work!(copy_guest), Undo::By(work!(resume_at_source)))
        .paid_by(work!(pay_guest_at_source))
        .within(Deadline::WithoutProgress(60))
        .serving()
        .interruptible(),
    Step::reversible(StepName::ActivateTargetPorts, work!(switch_ports), Undo::By(work!(activate_source_ports)))
        .moot_when(Moot::LostOwnership(At::Source))
        .serving(),
    TAKE_OWNERSHIP,
    Step::forward_or_back(StepName::ResumeAtTarget, work!(resume_at_target), Undo::By(work!(fence_live_target)))
        .within(Deadline::WithoutProgress(300)),
    // The only record, in one cell: users see the target with this commit.
    Step::forward(StepName::FinishRecord, work!(finish_live_record)),
    CLEAN_SOURCE_HOST,
    RELEASE_SOURCE_PORTS,
    Step::cleanup(StepName::ReleaseSourceVolumes, work!(release_left_volumes)).idle(idle::without_volumes),
    DROP_SOURCE_ALLOCATION,
    Step::cleanup(StepName::DropExport, work!(drop_transfer)),
];
