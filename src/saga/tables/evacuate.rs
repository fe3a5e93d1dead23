//! Evacuation: another host of the cell builds the guest anew, because the server's host is down. The root disk comes from the image or is a
//! volume; what the dead host's disks held is lost.
//!
//! Until `take_ownership` the server is its source's: a failure gives everything back, and a source that returns runs the guest on. After it
//! the source may not run the guest: it asks before it runs any (INVARIANTS S4). What it still has is removed when it returns; until then
//! the migration is `done` and holds what the server had there.

use super::confirm::{RELEASE_SOURCE_PORTS, RELEASE_SOURCE_VOLUMES};
use super::resize::{
    ACCEPT, ACTIVATE_TARGET_PORTS, BIND_PORTS_AT_TARGET, HOLD_SOURCE_ALLOCATION, RESERVE_VOLUMES_FOR_TARGET, TAKE_OWNERSHIP,
};
use crate::saga::claim::GiveUp;
use crate::saga::operation::Operation;
use crate::saga::step::{At, Deadline, Moot, Step, Table, Undo, claims, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::allocation::{drop_claim_at_target, pay_destination, release_destination};
use crate::saga::steps::evacuation::{
    build_at_target, check_image, claim_for_evacuation, finish_evacuation, record_evacuation, select_for_evacuation, start_evacuated,
};
use crate::saga::steps::fenced_source::{
    attach_source_volumes_again, clean_evacuated_source, detach_source_volumes, fence_source, pay_source_volumes, start_source_again,
};
use crate::saga::steps::guest::{fence_target, remove_from_target};
use crate::saga::steps::records::fail_migration;

/// The operation.
pub const OPERATION: Operation = Operation::new("evacuate", &[("evacuate", TABLE)], |_| TABLE).moving();

/// The saga. The request spec stays as it is: flavor and cell are the same, and no later move is tied to a host that was named here.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    ACCEPT,
    Step::reversible(StepName::RecordMigration, work!(record_evacuation), Undo::By(work!(fail_migration))).before_the_next_move(),
    Step::reversible(StepName::CheckImage, work!(check_image), Undo::Nothing("it changes nothing")),
    HOLD_SOURCE_ALLOCATION,
    Step::claiming(StepName::SelectDestination, claims!(select_for_evacuation), GiveUp::By(work!(release_destination)))
        .paid_by(work!(pay_destination))
        .before_the_next_move(),
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    Step::claiming(StepName::ClaimAtTarget, claims!(claim_for_evacuation), GiveUp::AtCandidate(work!(drop_claim_at_target)))
        .moot_when(Moot::InUseAgain(At::Target)),
    // A host that was forced down may run on: its guest is off before another may start.
    Step::reversible(StepName::FenceSource, work!(fence_source), Undo::By(work!(start_source_again)))
        .moot_when(Moot::OutOfHand(At::Source))
        .tried(4)
        .serving(),
    Step::reversible(StepName::DetachSourceVolumes, work!(detach_source_volumes), Undo::By(work!(attach_source_volumes_again)))
        .paid_by(work!(pay_source_volumes))
        .serving(),
    ACTIVATE_TARGET_PORTS,
    Step::reversible(StepName::PrepareAtTarget, work!(build_at_target), Undo::By(work!(remove_from_target)))
        .moot_when(Moot::InUseAgain(At::Target))
        .within(Deadline::WithoutProgress(60)),
    TAKE_OWNERSHIP,
    Step::forward_or_back(StepName::StartAtTarget, work!(start_evacuated), Undo::By(work!(fence_target))).within(Deadline::Within(300)),
    // Host, state and task in one commit: users never see ACTIVE with the old host.
    Step::forward(StepName::FinishRecord, work!(finish_evacuation)),
    RELEASE_SOURCE_PORTS,
    RELEASE_SOURCE_VOLUMES,
    // Owed while the source is down. It asks by itself whether the server has come back to that host.
    Step::cleanup(StepName::CleanEvacuatedSource, work!(clean_evacuated_source)),
];
